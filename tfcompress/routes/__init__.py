"""The ways in which gradients travel: a module for each, and what they share in `base`, `memory` and `rows`.

A way has a function `exchange(context, members, gradients)` that returns an `Outcome`. State is in the
members: a route is chosen for each step, and its functions keep nothing.
"""
