"""TOML -> frozen settings. A mistake is reported with file, key and what was expected. May import values, spec."""
