"""The settings of a server: its address, who has access, and its limits."""

import re
from dataclasses import dataclass
from typing import Annotated

from bertfeat.arguments import SECRET, checked
from bertfeat.errors import UsageError, parameter
from bertfeat.options import Option, check_bounds

ANY_HOST = "*"
"""The entry of :attr:`ServerSettings.allowed_hosts` that allows requests to any host name."""

_PREFIX = r"(/(?!\.\.?(/|$))[A-Za-z0-9._~-]+)*"  # clients resolve /../ and /./ before they send a path
_ORIGIN = r"[a-z][a-z0-9+.-]*://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
_HOST = r"[A-Za-z0-9._-]+"
_KEY = r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?"  # what a header can hold as it is
_SERVED_NAME = r"[\x21-\x7e]{1,200}"
_MOST_SECONDS = 10 * 365 * 86400  # beyond which clocks of operating systems fail


@checked
@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The address, the access and the limits of a server. ``/info`` shows some of the limits.

    Raises:
        UsageError: a limit below 1, a time that is not finite and above 0, or a prefix, key, origin or host name that
            no request could match.
    """

    port: Annotated[int, Option("The port; 0: a free one.", least=0, most=65535, basic=True)] = 8000
    host: Annotated[str, Option("The address; 0.0.0.0 for other machines.", metavar="ADDRESS", basic=True)] = (
        "127.0.0.1"
    )
    api_keys: Annotated[
        tuple[str, ...],
        SECRET,
        Option(
            "A key that requests need; may be given several times.",
            metavar="KEY",
            repeated=True,
            basic=True,
        ),
    ] = ()
    served_names: Annotated[
        tuple[str, ...],
        Option(
            "The name of the model in /v1; given several times, it has several, of which answers have the first.",
            default="the model's own",
            metavar="NAME",
            repeated=True,
        ),
    ] = ()
    cors_origins: Annotated[
        tuple[str, ...], Option("Pages of this origin may call; *: all.", metavar="ORIGIN", repeated=True)
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...],
        Option(
            "Without a key, a name besides --host by which the server is asked; *: any. Behind a proxy, its name.",
            metavar="NAME",
            repeated=True,
        ),
    ] = ()
    prefix: Annotated[str, Option("What stands before all paths: /bertfeat.", metavar="PATH")] = ""
    accept_token_ids: Annotated[bool, Option("Take token ids of this model's own tokenizer for texts.")] = False
    most_texts: Annotated[int, Option("Texts of a request.", least=1)] = 2048
    most_tokens: Annotated[int, Option("Tokens of a request.", least=1)] = 300_000
    most_values: Annotated[int, Option("Numbers in the vectors of an answer.", least=1, python_only=True)] = 2**25
    most_body: Annotated[int, Option("Bytes of a request.", metavar="SIZE", in_bytes=True, least=1)] = 32 * 2**20
    most_waiting_tokens: Annotated[int, Option("Tokens that may wait for the encoder.", least=1, python_only=True)] = (
        1_000_000
    )
    most_connections: Annotated[int, Option("Connections at once.", least=1, python_only=True)] = 1024
    body_seconds: Annotated[
        float, Option("Time until a request has been sent.", above=0, most=_MOST_SECONDS, python_only=True)
    ] = 30.0
    request_seconds: Annotated[
        float, Option("Time from a whole request to its answer.", metavar="SECONDS", above=0, most=_MOST_SECONDS)
    ] = 120.0
    grace_seconds: Annotated[
        float,
        Option("Time for what is in flight, when the server ends.", above=0, most=_MOST_SECONDS, python_only=True),
    ] = 30.0

    def __post_init__(self) -> None:
        check_bounds(self)
        if not self.host:
            raise UsageError(
                "an empty address is every one of this machine's",
                where=parameter("host", self.host),
                remedy="write 0.0.0.0",
            )
        prefix = self.prefix.strip("/")
        object.__setattr__(self, "prefix", f"/{prefix}" if prefix else "")
        if not re.fullmatch(_PREFIX, self.prefix):
            raise UsageError(
                "it is letters, digits and . _ ~ - between slashes, and nothing between two slashes is . or ..",
                where=parameter("prefix", self.prefix),
                remedy="write /bertfeat",
            )
        for at, name in enumerate(self.served_names):
            check_served_name(name, "served_names")
            if name in self.served_names[:at]:
                raise UsageError("this name is given twice", where=parameter("served_names", name))
        for origin in self.cors_origins:
            if origin != "*" and not re.fullmatch(_ORIGIN, origin):
                raise UsageError(
                    "an origin is a scheme and a host, perhaps with a port, and nothing after them",
                    where=parameter("cors_origins", origin),
                    remedy="write https://example.org, or * for all",
                )
        for name in self.allowed_hosts:
            if name != ANY_HOST and not re.fullmatch(_HOST, name):
                raise UsageError(
                    "the name of a host has no scheme, port or path",
                    where=parameter("allowed_hosts", name),
                    remedy="write search.example.org, or * for all",
                )
        if any(not re.fullmatch(_KEY, key) for key in self.api_keys):  # the key is not quoted: it is secret
            raise UsageError(
                "a key is empty, begins or ends with a blank, or has other characters than printable ASCII",
                where=parameter("api_keys"),
            )


def check_served_name(name: str, option: str) -> None:
    """Check that requests can name a model so; ``option`` is the parameter that gives the name."""
    if not re.fullmatch(_SERVED_NAME, name):
        raise UsageError(
            "a name has up to 200 printable characters of ASCII without blanks",
            where=parameter(option, name),
            remedy="choose another",
        )
