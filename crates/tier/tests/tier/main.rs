//! A cache through its interface: what comes back, what is bounded, and what damage does.

mod content;
mod damage;
mod encryption;
mod folders;
mod processes;
mod sizes;
