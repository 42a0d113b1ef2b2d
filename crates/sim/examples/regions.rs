fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let only = std::env::args().nth(2);
    let device =
        std::env::args().nth(3).map(|p| foreread_sim::profile::parse(&std::fs::read_to_string(p).unwrap()).unwrap());
    for (name, _) in foreread_workload::catalogue::TEXTS {
        if !name.starts_with("region") || !name.contains(&filter) {
            continue;
        }
        let mut w = foreread_workload::catalogue::find(name).unwrap();
        if let Ok(m) = std::env::var("MIB") {
            w.mount.memory_bytes = m.parse::<u64>().unwrap() << 20;
        }
        if let Ok(m) = std::env::var("CYC") {
            if let foreread_workload::Pattern::Region(r) = &mut w.pattern {
                r.cycles = m.parse().unwrap();
            }
        }
        let mut base = 0.0;
        for p in &w.simulate.policies {
            if let Some(only) = &only {
                if only != "all" && p != only && p != "swap-8" {
                    continue;
                }
            }
            let t0 = std::time::Instant::now();
            let t = foreread_sim::simulate(&w, p.parse::<foreread_sim::Stack>().unwrap(), device.as_ref()).unwrap();
            let f = |m| t.figure(m).unwrap();
            use foreread_workload::Metric::*;
            let s = f(TouchTime);
            if base == 0.0 {
                base = s;
            }
            println!(
                "{name:24} {p:18} {s:9.1}s {:6.3} waits {:8} in {:8} out {:8} reads {:8} ({:?})",
                s / base,
                f(TouchWaits),
                f(PagesIn),
                f(PagesOut),
                t.requests(),
                t0.elapsed()
            );
        }
    }
}
