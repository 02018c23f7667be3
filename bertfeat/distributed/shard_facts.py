"""Facts on how the shards of a run were made: times, devices and versions."""

from collections.abc import Sequence

from bertfeat.distributed.shard_folders import ShardFolder


def times_of(shards: Sequence[ShardFolder]) -> dict[str, object]:
    """Return the time when the last shard ended, the seconds of all together, and their devices."""
    times = [shard.record.times for shard in shards]
    seconds = [value for each in times if isinstance(value := each.get("seconds"), int | float)]
    return {
        "finished": max(str(each.get("finished", "")) for each in times),
        "seconds": round(sum(seconds), 3),
        "device": ", ".join(dict.fromkeys(str(each["device"]) for each in times if "device" in each)),
    }


def versions_of(shards: Sequence[ShardFolder]) -> dict[str, str]:
    """The versions with which the shards were made; where they differ, all of them."""
    return {name: ", ".join(values) for name, values in _all_versions(shards).items()}


def version_warnings(shards: Sequence[ShardFolder]) -> tuple[str, ...]:
    """Return warnings of differing versions, by which the parts are not those of a single run to the last digit."""
    differing = {
        name: values
        for name, values in _all_versions([shard for shard in shards if shard.record.numbers]).items()
        if len(values) > 1
    }
    if not differing:
        return ()
    listed = "; ".join(f"{name} {', '.join(values)}" for name, values in differing.items())
    return (f"the shards were not made alike ({listed}): equal texts have equal vectors up to rounding only",)


def _all_versions(shards: Sequence[ShardFolder]) -> dict[str, list[str]]:
    names = dict.fromkeys(name for shard in shards for name in shard.record.versions)
    return {name: list(dict.fromkeys(shard.record.versions.get(name, "none") for shard in shards)) for name in names}
