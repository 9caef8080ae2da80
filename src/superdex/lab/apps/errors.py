"""What a subcommand raises when the person at the keyboard can mend it."""

__all__ = ["UserError"]


class UserError(Exception):
    """One line that says what is wrong and what to do; `superdex` prints it and exits with code 2."""
