//! A program in C that uses the header and the library, compiled and run.

use std::path::Path;
use std::process::Command;

const PROGRAM: &str = r#"
#include <foreread.h>
#include <stdio.h>
#include <string.h>

#define PAGES 2048
#define CHECK(what) do { if (!(what)) { printf("line %d: %s (%s)\n", __LINE__, #what, foreread_last_error()); return 1; } } while (0)

int main(int argc, char **argv) {
    CHECK(argc == 2);
    CHECK(!foreread_region_create(0, 1 << 20, argv[1], 0) && strlen(foreread_last_error()) > 0);
    CHECK(!foreread_region_create(1 << 20, 1 << 20, "/no/such/place", 0) && strstr(foreread_last_error(), "/no/such/place"));
    CHECK(!foreread_region_create((size_t)1 << 44, 1 << 20, argv[1], 0) && strstr(foreread_last_error(), "16 TiB"));
    CHECK(!foreread_region_create((size_t)-1, 1 << 20, argv[1], 0) && strstr(foreread_last_error(), "16 TiB"));
    CHECK(!foreread_region_create(1 << 20, 1 << 20, argv[1], 1 << 30) && strstr(foreread_last_error(), "flag"));
    foreread_region *region = foreread_region_create((size_t)PAGES * 4096, 1 << 20, argv[1], FOREREAD_ENCRYPTED);
    CHECK(region && foreread_region_len(region) == (size_t)PAGES * 4096);
    unsigned char *data = foreread_region_data(region);
    for (size_t page = 0; page < PAGES; page++) {
        CHECK(data[page * 4096 + 5] == 0);
        memset(data + page * 4096, (int)(page % 251) + 1, 4096);
    }
    for (size_t page = PAGES; page-- > 0;)
        CHECK(data[page * 4096] == page % 251 + 1 && data[page * 4096 + 4095] == page % 251 + 1);
    foreread_stats stats;
    foreread_region_stats(region, &stats);
    CHECK(stats.budget_pages == 256 && stats.mapped_pages + stats.staged_pages <= 256);
    CHECK(stats.pages_read > 0 && stats.pages_written > 0 && stats.faults_zero > 0 && stats.pages_failed == 0);
    CHECK(foreread_region_advise(region, 0, 4096, FOREREAD_WILL_NEED) == 0);
    CHECK(foreread_region_advise(region, 4096, 8192, FOREREAD_DONT_NEED) == 0);
    CHECK(data[4096] == 0 && data[12287] == 0 && data[4095] == 1 && data[12288] == 4);
    CHECK(foreread_region_advise(region, 0, (size_t)-1, FOREREAD_RANDOM) == -1 && strlen(foreread_last_error()) > 0);
    CHECK(foreread_region_advise(region, 0, 4096, 77) == -1 && strstr(foreread_last_error(), "advice"));
    CHECK(foreread_region_resize(region, 2 << 20) == 0 && foreread_region_resize(region, 1) == -1);
    foreread_region_destroy(region);
    foreread_region_destroy(NULL);
    puts("all is well");
    return 0;
}
"#;

#[test]
fn a_program_in_c_uses_a_region() {
    if Command::new("cc").arg("--version").output().is_err() {
        assert!(std::env::var_os("FOREREAD_REQUIRE_CLIENTS").is_none(), "cc is not installed");
        println!("skipped: cc is not installed");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (source, program) = (dir.path().join("program.c"), dir.path().join("program"));
    std::fs::write(&source, PROGRAM).expect("written");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    // The library of this build lies beside the test.
    let beside = std::env::current_exe().expect("this program");
    let libraries = beside.parent().expect("a directory");
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(include).arg(&source);
    compile.arg("-L").arg(libraries).arg("-lforeread_memory");
    compile.arg(format!("-Wl,-rpath,{}", libraries.display())).arg("-o").arg(&program);
    let compiled = compile.output().expect("cc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).arg(dir.path()).output().expect("it runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "all is well\n");
}
