"""The built-in guidance of an agent: put together from what its tools are and what they are called. Static text."""

from __future__ import annotations

from collections.abc import Mapping

from planctl.agent import prompts


def guidance_for(names: Mapping[str, str], *, inject: bool, working: bool = True) -> str:
    """Return what the instructions say of planning; `names` maps the registered tools to what they are called.

    Who is not `working` on the plan is not told how. Empty without tools. Nothing in it changes during a run, so that
    it stays in the cached prefix.
    """
    updating = next((names[name] for name in names if name.startswith('update_')), names.get('write_plan'))
    sentences = {
        prompts.GUIDANCE_WRITE: 'write_plan' in names,
        prompts.GUIDANCE_WORK: working and updating is not None,
        prompts.GUIDANCE_ADD: 'add_task' in names,
        prompts.GUIDANCE_SUBTASK: 'add_subtask' in names,
        prompts.GUIDANCE_ORDER: 'set_dependency' in names,
        prompts.GUIDANCE_AVAILABLE: 'get_available_tasks' in names,
        prompts.GUIDANCE_REMINDER: inject and bool(names),
    }
    said = (sentence for sentence, wanted in sentences.items() if wanted)
    return ' '.join(said).format_map({**names, 'updating': updating})
