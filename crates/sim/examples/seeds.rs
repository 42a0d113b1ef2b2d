fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    std::panic::set_hook(Box::new(|_| {}));
    let mut bad = 0;
    for seed in args[0]..args[1] {
        for faults in [false, true] {
            let since = std::time::Instant::now();
            let r = std::panic::catch_unwind(|| foreread_sim::search::run(seed, faults).map(|t| t.requests()));
            let took = since.elapsed().as_secs_f64();
            match r {
                Ok(Ok(_)) if took > 3.0 => println!("seed {seed} faults {faults}: slow {took:.1}"),
                Ok(Ok(_)) => {}
                Ok(Err(v)) => {
                    bad += 1;
                    println!("seed {seed} faults {faults}: {v}")
                }
                Err(p) => {
                    bad += 1;
                    println!(
                        "seed {seed} faults {faults}: PANIC {:?}",
                        p.downcast_ref::<String>().cloned().or(p.downcast_ref::<&str>().map(|s| s.to_string()))
                    )
                }
            }
        }
    }
    println!("{bad} bad");
}
