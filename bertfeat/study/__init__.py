"""Study: what stored layers say of themselves, of each other, and of a change in time."""

__all__: list[str] = []
