"""The `superdex` command: `main` is its entry point, every subcommand has a module or package of its own."""
