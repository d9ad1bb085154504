"""A plan while operations are applied to it, with its structure at hand: children, who waits, loops. No rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from planctl.errors import StepNotFound
from planctl.plan import Plan, Step, next_id_after
from planctl.sanitize import clean

Node: TypeAlias = tuple[str, bool]
"""The start (`False`) or the end (`True`) of a step. That one waits for the other is an edge between nodes."""


class Working:
    """The steps of a plan as a dictionary in plan order, kept together with the maps that rules ask.

    Values are the immutable steps; `put` and `drop` are the only ways to change one.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.steps: dict[str, Step] = dict(plan.index)
        self.next_id = next_id_after(plan.next_id, self.steps)
        self.linked: list[tuple[str, str, bool]] = []
        """New links: the step, the one it now refers to, and whether that is its parent."""
        self._children: dict[str, dict[str, None]] | None = None
        self._waiting: dict[str, dict[str, None]] | None = None

    def step(self, step_id: str) -> Step:
        """Return the step, or raise `StepNotFound`."""
        step = self.steps.get(step_id)
        if step is None:
            raise StepNotFound(f'there is no step {clean(step_id)!r} in this plan', ids=[step_id])
        return step

    def new_id(self) -> str:
        """Give out the next integer; never the same twice in a session."""
        step_id = str(self.next_id)
        self.next_id += 1
        return step_id

    def put(self, step: Step) -> None:
        """Add the step at the end, or replace the one with its id."""
        earlier = self.steps.get(step.id)
        self.steps[step.id] = step
        if earlier is None:
            self.next_id = next_id_after(self.next_id, (step.id,))
        parent = earlier.parent_id if earlier else None
        if step.parent_id != parent:
            if self._children is not None:
                self._children.get(parent or '', {}).pop(step.id, None)
                if step.parent_id is not None:
                    self._children.setdefault(step.parent_id, {})[step.id] = None
            if step.parent_id is not None:
                self.linked.append((step.id, step.parent_id, True))
        known = earlier.depends_on if earlier else ()
        if step.depends_on != known:
            for gone in set(known).difference(step.depends_on):
                if self._waiting is not None:
                    self._waiting.get(gone, {}).pop(step.id, None)
            for new in step.depends_on:
                if new not in known:
                    if self._waiting is not None:
                        self._waiting.setdefault(new, {})[step.id] = None
                    self.linked.append((step.id, new, False))

    def drop(self, step_id: str) -> list[str]:
        """Remove the step and every reference to it; return who depended on it. Its children go to the top level."""
        step = self.steps[step_id]
        waiting = list(self.waiting(step_id))
        for other in waiting:
            kept = tuple(on for on in self.steps[other].depends_on if on != step_id)
            self.put(replace(self.steps[other], depends_on=kept))
        for child in list(self.children(step_id)):
            self.put(replace(self.steps[child], parent_id=None))
        self.put(replace(step, parent_id=None, depends_on=()))
        del self.steps[step_id]
        return waiting

    def place(self, step_id: str, *, before: str | None = None, after: str | None = None) -> None:
        """Put the step right before or after another in the order."""
        other = self.step(before if before is not None else after or '')
        if other.id == step_id:
            return
        step = self.steps.pop(step_id)
        order: dict[str, Step] = {}
        for current_id, current in self.steps.items():
            if current_id == other.id:
                pair = (step, current) if before is not None else (current, step)
                order.update((one.id, one) for one in pair)
            else:
                order[current_id] = current
        self.steps = order

    def children(self, step_id: str) -> Iterable[str]:
        """Return the ids of the steps right under this one."""
        if self._children is None:
            self._children = {}
            for step in self.steps.values():
                if step.parent_id is not None:
                    self._children.setdefault(step.parent_id, {})[step.id] = None
        return self._children.get(step_id, ())

    def waiting(self, step_id: str) -> Iterable[str]:
        """Return the ids of the steps that depend on this one."""
        if self._waiting is None:
            self._waiting = {}
            for step in self.steps.values():
                for on in step.depends_on:
                    self._waiting.setdefault(on, {})[step.id] = None
        return self._waiting.get(step_id, ())

    def descendants(self, step_id: str) -> list[str]:
        """Return the ids of everything under this step, parents first."""
        found: dict[str, None] = {}
        stack = [*self.children(step_id)][::-1]
        while stack:
            child = stack.pop()
            if child not in found and child != step_id:
                found[child] = None
                stack.extend([*self.children(child)][::-1])
        return list(found)

    def ancestors(self, step_id: str) -> Iterator[Step]:
        """Yield the parent, its parent and so on; ends on a missing parent and on a loop made by another program."""
        seen = {step_id}
        parent_id = self.steps[step_id].parent_id
        while parent_id is not None and parent_id not in seen and parent_id in self.steps:
            seen.add(parent_id)
            yield self.steps[parent_id]
            parent_id = self.steps[parent_id].parent_id

    def open_prerequisites(self, step: Step) -> list[str]:
        """Return the ids of the unresolved steps that this one waits for. A missing one does not count."""
        found: list[str] = []
        for on in step.depends_on:
            other = self.steps.get(on)
            if other is not None and not other.resolved:
                found.append(on)
        return found

    def open_children(self, step_id: str) -> list[str]:
        """Return the ids of the unresolved steps right under this one."""
        return [child for child in self.children(step_id) if not self.steps[child].resolved]

    # --- Loops -------------------------------------------------------------------------------------------------

    def loop(self) -> list[str] | None:
        """Return the ids along a loop that one of the new links closes, the first repeated at the end, or `None`.

        A step starts after the steps that it depends on end and after its parent starts; a parent ends after its
        children end. A loop among those is a plan that nobody could finish. One that was stored before is not ours
        to judge. Linear in the part of the plan that the new links reach.
        """
        edges: list[tuple[Node, Node]] = []
        for step_id, other_id, is_parent in self.linked:
            step = self.steps.get(step_id)
            if step is None or other_id not in self.steps:
                continue
            if is_parent and step.parent_id == other_id:
                edges.append(((step_id, False), (other_id, False)))
                edges.append(((other_id, True), (step_id, True)))
            elif not is_parent and other_id in step.depends_on:
                edges.append(((step_id, False), (other_id, True)))
        component = self._components([source for source, _ in edges]) if edges else {}
        for source, target in edges:
            if component[source] == component.get(target):
                return self._path(target, source, component)
        return None

    def _after(self, node: Node) -> list[Node]:
        """Return the nodes that this one comes after."""
        step_id, is_end = node
        step = self.steps[step_id]
        if is_end:
            return [(step_id, False), *((child, True) for child in self.children(step_id))]
        found: list[Node] = [(on, True) for on in step.depends_on if on in self.steps]
        if step.parent_id is not None and step.parent_id in self.steps:
            found.append((step.parent_id, False))
        return found

    def _components(self, roots: Iterable[Node]) -> dict[Node, int]:
        """Number the strongly connected components that the roots reach (Tarjan's algorithm, without recursion)."""
        number: dict[Node, int] = {}
        low: dict[Node, int] = {}
        component: dict[Node, int] = {}
        path: list[Node] = []
        for root in roots:
            if root in number:
                continue
            calls: list[tuple[Node, Iterator[Node]]] = [(root, iter(self._after(root)))]
            number[root] = low[root] = len(number)
            path.append(root)
            while calls:
                node, successors = calls[-1]
                for successor in successors:
                    if successor not in number:
                        number[successor] = low[successor] = len(number)
                        path.append(successor)
                        calls.append((successor, iter(self._after(successor))))
                        break
                    if successor not in component:
                        low[node] = min(low[node], number[successor])
                else:
                    calls.pop()
                    if calls:
                        low[calls[-1][0]] = min(low[calls[-1][0]], low[node])
                    if low[node] == number[node]:
                        while True:
                            member = path.pop()
                            component[member] = number[node]
                            if member == node:
                                break
        return component

    def _path(self, start: Node, goal: Node, component: dict[Node, int]) -> list[str]:
        """Return the ids of the shortest way round, from the goal over the start back to the goal."""
        came_from: dict[Node, Node] = {}
        queue = [start]
        for node in queue:
            if node == goal:
                break
            for successor in self._after(node):
                if successor not in came_from and successor != start and component.get(successor) == component[start]:
                    came_from[successor] = node
                    queue.append(successor)
        ids = [goal[0]]
        node = goal
        while node != start:
            node = came_from[node]
            if node[0] != ids[-1]:
                ids.append(node[0])
        return [goal[0], *(step_id for step_id in reversed(ids) if step_id != ids[0]), goal[0]]
