//! Names of objects and programs on a terminal: what would move its cursor, or turn the letters
//! behind it round, is written out.

/// `name` in letters that a terminal shows.
pub(crate) fn plain(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_control() || is_direction(letter) {
            plain.extend(letter.escape_default());
        } else {
            plain.push(letter);
        }
    }
    plain
}

/// Marks and overrides of the direction of text, and ends of lines that are no control characters.
fn is_direction(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The end of `name` in `width` columns: it tells more than the start.
pub(crate) fn end_of(name: &str, width: usize) -> String {
    let name = plain(name);
    let more = name.chars().count().saturating_sub(width);
    if more == 0 { name } else { format!("…{}", name.chars().skip(more + 1).collect::<String>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_moves_no_cursor() {
        assert_eq!(plain("a/b\n\x1b[2Jc\u{202e}d"), "a/b\\n\\u{1b}[2Jc\\u{202e}d");
        assert_eq!(plain("größe/日本.bin"), "größe/日本.bin");
        assert_eq!((end_of("part-00001", 6), end_of("part", 4)), ("…00001".to_owned(), "part".to_owned()));
        assert_eq!(end_of(&"x\n".repeat(500), 5).chars().count(), 5);
    }
}
