"""A plan while operations are applied to it, with its structure at hand: children, who waits, loops. No rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator
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
        self.next_id = plan.next_id
        self.linked: list[tuple[str, str, bool]] = []
        """New links: the step, the one it now refers to, and whether that is its parent."""
        self._counted = False
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
        if not self._counted:
            # Not before it is needed: another program may have stored integers that the counter has not seen.
            self.next_id = next_id_after(self.next_id, self.steps)
            self._counted = True
        while (step_id := str(self.next_id)) in self.steps:
            self.next_id += 1
        self.next_id += 1
        return step_id

    def put(self, step: Step, *, linked: bool = True) -> None:
        """Add the step at the end, or replace the one with its id; its new references are noted unless told not to."""
        earlier = self.steps.get(step.id)
        self.steps[step.id] = step
        if earlier is None:
            self.next_id = next_id_after(self.next_id, (step.id,))
        parent = earlier.parent_id if earlier else None
        if step.parent_id != parent:
            if self._children is not None:
                if parent is not None:
                    self._children.get(parent, {}).pop(step.id, None)
                if step.parent_id is not None:
                    self._children.setdefault(step.parent_id, {})[step.id] = None
            if step.parent_id is not None and linked:
                self.linked.append((step.id, step.parent_id, True))
        known = earlier.depends_on if earlier else ()
        if step.depends_on != known:
            before, after = set(known), set(step.depends_on)
            if self._waiting is not None:
                for gone in before - after:
                    self._waiting.get(gone, {}).pop(step.id, None)
                for new in after - before:
                    self._waiting.setdefault(new, {})[step.id] = None
            if linked:
                self.linked.extend((step.id, new, False) for new in step.depends_on if new not in before)

    def drop(self, step_ids: Collection[str]) -> None:
        """Remove steps and every reference to them; their children go under the nearest ancestor that stays."""
        gone = dict.fromkeys(step_ids)
        for other in {other for step_id in gone for other in self.waiting(step_id) if other not in gone}:
            kept = tuple(on for on in self.steps[other].depends_on if on not in gone)
            self.put(replace(self.steps[other], depends_on=kept))
        heirs: dict[str, str | None] = {}
        for step_id in gone:
            for child in [child for child in self.children(step_id) if child not in gone]:
                heir = self._heir(step_id, gone, heirs)
                # Nothing new to judge: who is under the step was under the heir before.
                self.put(replace(self.steps[child], parent_id=heir), linked=False)
        self.next_id = next_id_after(self.next_id, gone)
        for step_id in gone:
            self.put(replace(self.steps[step_id], parent_id=None, depends_on=()))
            del self.steps[step_id]

    def _heir(self, step_id: str, gone: Container[str], known: dict[str, str | None]) -> str | None:
        path: list[str] = []
        current: str | None = step_id
        while current is not None and current in gone and current not in known:
            path.append(current)
            known[current] = None  # The end of the way, should it come round to here.
            current = self.steps[current].parent_id
        heir = None if current is None else known.get(current, current)
        if heir not in self.steps:
            heir = None
        known.update(dict.fromkeys(path, heir))
        return heir

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

    def arrange(self, placed: Iterable[tuple[str, str | None]]) -> None:
        """Put each of these steps right behind another, or at the top (`None`); whatever their order. Linear.

        One whose other step is not there goes to the end, and so do those that would stand behind each other.
        """
        moving = dict(placed)
        followers: dict[str | None, list[str]] = {}
        for step_id, behind in moving.items():
            followers.setdefault(behind, []).append(step_id)
        order: dict[str, Step] = {}

        def put(step_id: str) -> None:
            stack = [step_id]
            while stack:
                current = stack.pop()
                if current in self.steps and current not in order:
                    order[current] = self.steps[current]
                    stack.extend(reversed(followers.get(current, ())))

        for step_id in (*followers.get(None, ()), *(other for other in self.steps if other not in moving), *moving):
            put(step_id)
        self.steps = order

    def children(self, step_id: str) -> Collection[str]:
        """Return the ids of the steps right under this one."""
        if self._children is None:
            self._children = {}
            for step in self.steps.values():
                if step.parent_id is not None:
                    self._children.setdefault(step.parent_id, {})[step.id] = None
        return self._children.get(step_id, ())

    def waiting(self, step_id: str) -> Collection[str]:
        """Return the ids of the steps that depend on this one."""
        if self._waiting is None:
            self._waiting = {}
            for step in self.steps.values():
                for on in step.depends_on:
                    self._waiting.setdefault(on, {})[step.id] = None
        return self._waiting.get(step_id, ())

    def descendants(self, step_id: str, *, without: Container[str] = ()) -> list[str]:
        """Return the ids of everything under this step, parents first; of `without` neither those nor what is below."""
        found: dict[str, None] = {}
        stack = [*self.children(step_id)][::-1]
        while stack:
            child = stack.pop()
            if child not in found and child != step_id and child not in without:
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

    def nearest(self, step_id: str, holds: Callable[[Step], bool], known: dict[str, str | None]) -> str | None:
        """Return the id of the nearest ancestor for which `holds`; `known` shares the answers of many calls."""
        path = [step_id]
        found: str | None = None
        for ancestor in self.ancestors(step_id):
            if holds(ancestor):
                found = ancestor.id
                break
            if ancestor.id in known:
                found = known[ancestor.id]
                break
            path.append(ancestor.id)
        known.update(dict.fromkeys(path, found))
        return found

    def open_prerequisites(self, step: Step) -> list[str]:
        """Return the ids of the unresolved steps that this one waits for. A missing one does not count."""
        return [on for on in step.depends_on if (other := self.steps.get(on)) is not None and not other.resolved]

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
            if step is None or other_id not in self.steps or self._is_end_of_every_way(step):
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

    def _is_end_of_every_way(self, step: Step) -> bool:
        """Whether nothing waits for the step but the parent that it waits for anyway: no loop leads through it."""
        in_the_way = step.parent_id is not None and step.depends_on
        return not (in_the_way or self.waiting(step.id) or self.children(step.id))

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
        """Return the ids of a shortest way round, from the goal over the start back to the goal."""
        came_from: dict[Node, Node] = {}
        queue = [start]
        for node in queue:
            if node == goal:
                break
            for successor in self._after(node):
                if successor not in came_from and successor != start and component.get(successor) == component[start]:
                    came_from[successor] = node
                    queue.append(successor)
        ids: list[str] = []
        node = goal
        while node != start:
            node = came_from[node]
            ids.append(node[0])
        return _round_trip(goal[0], reversed(ids))


def _round_trip(home: str, ids: Iterable[str]) -> list[str]:
    """Return the way from `home` over `ids` and back, each step once: start and end of one step are one stop."""
    way = [home, *ids]
    while len(way) > 1 and way[-1] == home:
        way.pop()
    stops: dict[str, None] = {}
    for step_id in way:
        while step_id in stops and next(reversed(stops)) != step_id:
            stops.popitem()  # A detour that came back to where it began.
        stops[step_id] = None
    return [*stops, home]
