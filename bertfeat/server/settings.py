"""What whoever starts the server decides."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Limits and access. The limits are told at ``/info``."""

    host: str = "127.0.0.1"
    port: int = 8000
    prefix: str = ""  # of all paths, where a proxy leaves it there: "/bertfeat"
    api_keys: tuple[str, ...] = ()  # one of them is asked for, if there are any
    cors_origins: tuple[str, ...] = ()  # that browsers may call from; "*": any
    accept_token_ids: bool = False
    most_texts: int = 2048  # in a request
    most_tokens: int = 300_000  # in a request
    most_values: int = 2**25  # numbers in the vectors of an answer
    most_body: int = 32 * 2**20  # bytes of a request
    most_waiting_tokens: int = 1_000_000
    most_connections: int = 1024
    body_seconds: float = 30.0  # until a request has been sent
    request_seconds: float = 120.0  # from then to the answer
    grace_seconds: float = 30.0  # for what is in flight, when the server ends
