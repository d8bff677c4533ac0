"""The ways in which gradients travel, one module each.

Each has a function `exchange(context, members, gradients)` that returns an `Outcome`. State is in the
members: a route is chosen for each step, and its functions keep nothing.
"""
