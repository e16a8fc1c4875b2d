"""Who is talking, where the answer goes, who answers: values and pure functions, no I/O."""
