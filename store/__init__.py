"""The only code that speaks SQL: one writer thread, a small pool of readers, plain functions over a connection."""
