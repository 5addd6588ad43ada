"""What goes wrong outside Airflow: one clear line for the person at the terminal."""

from __future__ import annotations


class StackError(Exception):
    """The stack cannot do what it was asked; the message says why and what to do."""


class SettingsError(StackError):
    """A setting cannot be used; one line per mistake names the variable, what was found and what is allowed."""
