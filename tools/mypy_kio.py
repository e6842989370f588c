"""A mypy plugin: kio's messages take plain values.

kio types its fields by phantom types: `i16` is any int in range, `TopicName` any str, `ErrorCode` an enum of ints.
At run time a plain int, str or timedelta is one of them, but mypy cannot know that and would ask for a cast at each
field. Here the signature of every message's constructor is read with the plain type instead, so that the names and
kinds of fields are still checked.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import FunctionSigContext, Plugin
from mypy.types import FunctionLike, Instance, ProperType, TupleType, Type, UnionType, get_proper_type

MESSAGES = ("kio.schema.", "chronik.wire.kafka_4_4.")
PLAIN = frozenset({"builtins.int", "builtins.str", "builtins.bytes", "datetime.timedelta", "datetime.datetime"})


def plain(kind: Type) -> Type:
    """The builtin below a phantom type, also inside tuples and unions; any other type unchanged."""
    proper: ProperType = get_proper_type(kind)
    if isinstance(proper, UnionType):
        return UnionType([plain(item) for item in proper.items])
    if isinstance(proper, TupleType):
        return proper.copy_modified(items=[plain(item) for item in proper.items])
    if not isinstance(proper, Instance):
        return kind
    if proper.type.fullname.startswith("kio."):
        for base in proper.type.mro:
            if base.fullname in PLAIN:
                return Instance(base, [])
    return proper.copy_modified(args=[plain(argument) for argument in proper.args])


def plain_signature(context: FunctionSigContext) -> FunctionLike:
    signature = context.default_signature
    return signature.copy_modified(arg_types=[plain(kind) for kind in signature.arg_types])


class KioPlugin(Plugin):
    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        return plain_signature if fullname.startswith(MESSAGES) else None


def plugin(version: str) -> type[Plugin]:
    return KioPlugin
