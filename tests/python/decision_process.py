"""Finite decision processes with known values, and logs that have exactly their probabilities."""

from types import SimpleNamespace

import numpy as np

DISCOUNT = 0.8
# Tenths, quarters and halves: logs of 40 transitions of each state have exactly these shares.
NEXT = (
    np.array(
        [
            [[1, 2, 3, 4], [4, 3, 2, 1]],
            [[5, 5, 0, 0], [0, 1, 1, 8]],
            [[2, 2, 2, 4], [7, 0, 3, 0]],
            [[0, 9, 0, 1], [1, 1, 4, 4]],
        ]
    )
    / 10
)
REWARDS = np.array([[1.0, -0.5], [0.25, 2.0], [-1.0, 0.75], [0.0, 0.5]])
POLICY = np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5], [0.75, 0.25]])
LOGGED = np.array([[0.5, 0.5], [0.5, 0.5], [0.25, 0.75], [0.5, 0.5]])
STATES = np.arange(4)


def exact(policy=POLICY, discount=DISCOUNT):
    """Return V and Q of a policy by linear algebra."""
    mean = np.einsum("sa,sat->st", policy, NEXT)
    value = np.linalg.solve(np.eye(4) - discount * mean, (policy * REWARDS).sum(axis=1))
    return value, REWARDS + discount * NEXT @ value


def log(policy=LOGGED, copies=4):
    """Return all transitions, in proportion to their probability, in a random order."""
    rows = [
        (s, a, t)
        for s in range(4)
        for a in range(2)
        for t in range(4)
        for _ in range(round(40 * copies * policy[s, a] * NEXT[s, a, t]))
    ]
    s, a, t = np.random.default_rng(0).permutation(rows).T
    return SimpleNamespace(
        states=s,
        actions=a,
        rewards=REWARDS[s, a],
        next_states=t,
        terminals=np.zeros(len(s), dtype=bool),
        weights=POLICY[s, a] / policy[s, a],
        next_action_probabilities=POLICY[t],
    )


def arguments(found):
    """Return the positional arguments of a fit."""
    return found.states, found.actions, found.rewards, found.next_states, found.terminals


def episodes(count, seed, end=0.4, longest=6):
    """Return episodes from state 0 under the logged policy, which end or are cut short.

    Transitions end the process with probability `end`, and at the latest the sixth does.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        s = 0
        for step in range(longest):
            a = int(rng.random() < LOGGED[s, 1])
            t = int(rng.choice(4, p=NEXT[s, a]))
            over = rng.random() < end or step + 1 == longest
            rows.append((s, a, t, over, step == 0))
            s = t
            if over:
                break
    s, a, t, over, first = np.array(rows).T
    return SimpleNamespace(
        states=s,
        actions=a,
        rewards=REWARDS[s, a],
        next_states=t,
        terminals=over.astype(bool),
        weights=POLICY[s, a] / LOGGED[s, a],
        next_action_probabilities=POLICY[t],
        starts=np.flatnonzero(first),
    )


def exact_of_episodes(end=0.4, longest=6, discount=DISCOUNT):
    """Return the value of the policy at the start of such an episode."""
    value = np.zeros(4)
    for step in reversed(range(longest)):
        going_on = 0.0 if step + 1 == longest else 1.0 - end
        value = (POLICY * (REWARDS + discount * going_on * NEXT @ value)).sum(axis=1)
    return value[0]
