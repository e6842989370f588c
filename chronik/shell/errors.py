"""Why a node cannot start, in words for the person who tried."""

from __future__ import annotations


class StartError(Exception):
    """`message` says what is wrong, `what_to_do` what helps."""

    def __init__(self, message: str, what_to_do: str) -> None:
        super().__init__(f"{message}\n{what_to_do}")
        self.message = message
        self.what_to_do = what_to_do
