"""Regular expressions for topic subscriptions, matched in time linear to the name.

Kafka takes RE2's syntax, which has no backtracking. Python's `re` does backtrack, so one unlucky (or unkind) pattern
would hold up the node: here a pattern becomes a small automaton instead, and all its states advance together.

Supported: literals, `.`, classes `[a-z]` `[^x]`, `\\d \\w \\s` and their opposites, groups `( )` `(?: )` `(?P<n> )`,
`|`, `* + ? {m} {m,} {m,n}` (greedy or not makes no difference), `^ $ \\A \\z`, `\\Q..\\E`, and `(?i)` at the start.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

PATTERN_CHARS_MAX = 1_000
STATES_MAX = 1_000
REPEAT_MAX = 1_000
CACHED_STEPS_MAX = 20_000

Accepts: TypeAlias = Callable[[str], bool]
States: TypeAlias = frozenset[int]


class BadPattern(ValueError):
    """Not a pattern we can read."""


_DIGITS, _WORD, _SPACE = (
    frozenset(string.digits),
    frozenset(string.ascii_letters + string.digits + "_"),
    frozenset(" \t\n\r\f\v"),
)
_CLASSES: dict[str, tuple[frozenset[str], bool]] = {
    "d": (_DIGITS, True),
    "D": (_DIGITS, False),
    "w": (_WORD, True),
    "W": (_WORD, False),
    "s": (_SPACE, True),
    "S": (_SPACE, False),
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


@dataclass(slots=True)
class _State:
    """Waits for a character it accepts, or (with none) passes on at once."""

    accepts: Accepts | None = None
    nexts: list[int] = field(default_factory=list)
    at_start: bool = False  # passes only at the start of the name
    at_end: bool = False


class Pattern:
    """A compiled pattern."""

    def __init__(self, regex: str) -> None:
        if len(regex) > PATTERN_CHARS_MAX:
            raise BadPattern(f"longer than {PATTERN_CHARS_MAX} characters")
        builder = _Builder(regex)
        self._states, self._start, self._end = builder.build()
        self._fold_case = builder.fold_case
        self._steps: dict[tuple[States, str], States] = {}

    def matches(self, name: str) -> bool:
        """Does the whole name fit?"""
        if self._fold_case:
            name = name.lower()
        states = self._closure([self._start], at_start=True, at_end=not name)
        for position, char in enumerate(name):
            if not states:
                return False
            is_last = position == len(name) - 1
            states = self._step(states, char, is_last)
        return self._end in states

    def _step(self, states: States, char: str, is_last: bool) -> States:
        key = (states, char if not is_last else char + "$")
        known = self._steps.get(key)
        if known is None:
            reached: list[int] = []
            for number in sorted(states):
                state = self._states[number]
                if state.accepts is not None and state.accepts(char):
                    reached += state.nexts
            known = self._closure(reached, at_start=False, at_end=is_last)
            if len(self._steps) < CACHED_STEPS_MAX:
                self._steps[key] = known
        return known

    def _closure(self, numbers: list[int], at_start: bool, at_end: bool) -> States:
        """All states reached from these without taking a character."""
        seen: set[int] = set()
        left = list(numbers)
        while left:
            number = left.pop()
            state = self._states[number]
            if number in seen or (state.at_start and not at_start) or (state.at_end and not at_end):
                continue
            seen.add(number)
            if state.accepts is None:
                left += state.nexts
        return frozenset(seen)


class _Builder:
    """Reads a pattern and builds its automaton (Thompson's construction). A piece is a pair: first and last state."""

    def __init__(self, regex: str) -> None:
        self.fold_case = regex.startswith("(?i)")
        self._regex = regex[4:] if self.fold_case else regex
        self._at = 0
        self._depth = 0
        self._states: list[_State] = []

    def build(self) -> tuple[list[_State], int, int]:
        first, last = self._alternatives()
        if self._at < len(self._regex):
            raise BadPattern(f"unexpected {self._regex[self._at]!r} at {self._at}")
        return self._states, first, last

    def _peek(self) -> str:
        return self._regex[self._at] if self._at < len(self._regex) else ""

    def _take(self) -> str:
        if self._at >= len(self._regex):
            raise BadPattern("ends too early")
        self._at += 1
        return self._regex[self._at - 1]

    def _new(self, state: _State | None = None) -> int:
        if len(self._states) >= STATES_MAX:
            raise BadPattern("too complex")
        self._states.append(state or _State())
        return len(self._states) - 1

    def _link(self, source: int, target: int) -> None:
        self._states[source].nexts.append(target)

    def _alternatives(self) -> tuple[int, int]:
        first, last = self._new(), self._new()
        while True:
            start, end = self._sequence()
            self._link(first, start)
            self._link(end, last)
            if self._peek() != "|":
                return first, last
            self._take()

    def _sequence(self) -> tuple[int, int]:
        first = last = self._new()
        while self._peek() not in ("", "|", ")"):
            start, end = self._repeated()
            self._link(last, start)
            last = end
        return first, last

    def _repeated(self) -> tuple[int, int]:
        begin = self._at
        piece = self._one()
        bounds = self._quantifier()
        if bounds is None:
            return piece
        least, most = bounds
        if least > REPEAT_MAX or (most or 0) > REPEAT_MAX or (most is not None and most < least):
            raise BadPattern("bad repeat")
        after = self._at
        first = last = self._new()
        for place in range(max(least, most if most is not None else least + 1)):
            if place:  # every repeat needs states of its own: read the piece again
                self._at = begin
                piece = self._one()
            start, end = piece
            joint = self._new()
            self._link(last, start)
            self._link(end, joint)
            if place >= least:
                self._link(last, joint)
            if most is None and place >= least:
                self._link(end, start)
            last = joint
        self._at = after
        if self._peek() and self._peek() in "*+?{":
            raise BadPattern("nothing to repeat")
        return first, last

    def _quantifier(self) -> tuple[int, int | None] | None:
        bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._peek())
        if bounds is not None:
            self._take()
        elif self._peek() == "{":
            bounds = self._braces()
        if bounds is not None and self._peek() == "?":
            self._take()  # 'as few as possible' fits the same names
        return bounds

    def _braces(self) -> tuple[int, int | None] | None:
        end = self._regex.find("}", self._at)
        least, comma, most = self._regex[self._at + 1 : max(end, 0)].partition(",")
        if end < 0 or not least.isdecimal() or not (most.isdecimal() or not most):
            raise BadPattern("a '{' that is not a repeat")
        self._at = end + 1
        return int(least), (int(most) if most else None) if comma else int(least)

    def _one(self) -> tuple[int, int]:
        char = self._take()
        match char:
            case "(":
                return self._group()
            case "[":
                return self._accepting(self._char_class())
            case ".":
                return self._accepting(lambda c: c != "\n")
            case "^":
                return self._anchor(_State(at_start=True))
            case "$":
                return self._anchor(_State(at_end=True))
            case "\\":
                return self._escaped()
            case "*" | "+" | "?" | "{":
                raise BadPattern("nothing to repeat")
        return self._literal(char)

    def _anchor(self, state: _State) -> tuple[int, int]:
        number = self._new(state)
        return number, number

    def _accepting(self, accepts: Accepts) -> tuple[int, int]:
        last = self._new()
        return self._new(_State(accepts, [last])), last

    def _literal(self, char: str) -> tuple[int, int]:
        wanted = char.lower() if self.fold_case else char
        return self._accepting(lambda c: c == wanted)

    def _group(self) -> tuple[int, int]:
        self._depth += 1
        if self._depth > 50:
            raise BadPattern("nested too deep")
        if self._peek() == "?":
            self._take()
            kind = self._take()
            if kind == "P" or (kind == "<" and self._peek() not in ("=", "!")):
                end = self._regex.find(">", self._at)
                if end < 0:
                    raise BadPattern("a group name without end")
                self._at = end + 1
            elif kind != ":":
                raise BadPattern("lookarounds and inner flags are not supported")
        piece = self._alternatives()
        if self._take() != ")":
            raise BadPattern("a '(' without ')'")
        self._depth -= 1
        return piece

    def _escaped(self) -> tuple[int, int]:
        char = self._take()
        if char in _CLASSES:
            members, inside = _CLASSES[char]
            return self._accepting(lambda c: (c in members) is inside)
        if char == "A":
            return self._anchor(_State(at_start=True))
        if char == "z":
            return self._anchor(_State(at_end=True))
        if char == "Q":
            return self._quoted()
        return self._literal(self._escaped_char(char))

    def _escaped_char(self, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char.isalnum():
            raise BadPattern(f"\\{char} is not supported")
        return char

    def _quoted(self) -> tuple[int, int]:
        end = self._regex.find("\\E", self._at)
        text = self._regex[self._at : end if end >= 0 else len(self._regex)]
        self._at = end + 2 if end >= 0 else len(self._regex)
        first = last = self._new()
        for char in text:
            start, end_state = self._literal(char)
            self._link(last, start)
            last = end_state
        return first, last

    def _char_class(self) -> Accepts:
        negated = self._peek() == "^"
        if negated:
            self._take()
        tests: list[Accepts] = []
        is_first = True
        while is_first or self._peek() != "]":
            tests.append(self._class_item())
            is_first = False
        self._take()
        return lambda c: any(test(c) for test in tests) is not negated

    def _class_item(self) -> Accepts:
        low = self._take()
        if low == "[" and self._peek() == ":":
            raise BadPattern("[:class:] is not supported")
        if low == "\\":
            escaped = self._take()
            if escaped in _CLASSES:
                members, inside = _CLASSES[escaped]
                return lambda c: (c in members) is inside
            low = self._escaped_char(escaped)
        if self._peek() == "-" and self._regex[self._at + 1 : self._at + 2] not in ("", "]"):
            self._take()
            high = self._take()
            if high == "\\":
                high = self._escaped_char(self._take())
            if high < low:
                raise BadPattern(f"range {low}-{high} is out of order")
            return self._in_range(low, high)
        return self._in_range(low, low)

    def _in_range(self, low: str, high: str) -> Accepts:
        if self.fold_case:
            return lambda c: low <= c <= high or low <= c.upper() <= high
        return lambda c: low <= c <= high
