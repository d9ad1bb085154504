"""Where the cache point lands in the bodies that real provider clients send, captured without a network.

What is held for every provider: the bytes before our point are the start of the next request.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from agent_scripts import call
from provider_bodies import (
    Anthropic,
    Bedrock,
    Google,
    OpenAIChat,
    OpenAIResponses,
    OpenRouter,
    Provider,
    count_markers,
)
from pydantic_ai import Agent, BinaryContent, CachePoint, ModelRetry
from pydantic_ai.capabilities import AbstractCapability, Caching
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel

from planctl import InMemoryPlanStore, Planning
from planctl.core import apply
from planctl.operations import Add

for package in ('anthropic', 'boto3', 'google.genai', 'openai'):
    pytest.importorskip(package)

PICTURE = BinaryContent(b'\x89PNG\r\n\x1a\n' + b'0' * 20, media_type='image/png')
DOCUMENT = BinaryContent(b'%PDF-1.4', media_type='application/pdf')

CLAUDE, NOVA, LLAMA = (
    'us.anthropic.claude-opus-5-5',
    'us.amazon.nova-2-lite-v1:0',
    'us.meta.llama4-maverick-17b-instruct-v1:0',
)
TO_THE_END = [(Anthropic, 'claude-sonnet-5-5'), (Bedrock, CLAUDE), (Bedrock, NOVA), (OpenAIResponses, 'gpt-6-sol')]
"""Providers whose point stands right before the reminder, whatever is there."""
TO_THE_TEXT = [(OpenAIChat, 'gpt-6-sol')]
"""As above, but the pictures that a tool returned come behind the reminder and are in the next request's prefix."""
TO_THE_USER = [(OpenRouter, 'anthropic/claude-sonnet-5.5'), (OpenRouter, 'google/gemini-3.8-flash')]
"""Providers whose point stays at the last message of the user."""
POINTLESS = [
    (Bedrock, LLAMA),
    (OpenAIChat, 'gpt-5.5'),
    (OpenAIResponses, 'gpt-5.5'),
    (OpenRouter, 'openai/gpt-5.5'),
    (Google, 'gemini-4-argon'),
]
POINTED = [*TO_THE_END, *TO_THE_TEXT, *TO_THE_USER]
EVERY = [*POINTED, *POINTLESS]


def every(providers: list[tuple[type[Provider], str]]) -> Any:
    ids = [f'{kind.__name__}-{name}' for kind, name in providers]
    return pytest.mark.parametrize(('kind', 'name'), providers, ids=ids)


@cache
def _kept(kind: type[Provider], name: str) -> tuple[Provider, Model]:
    provider = kind()
    return provider, provider.model(name)


def served(kind: type[Provider], name: str, *turns: Any) -> tuple[Provider, Model]:
    """Return a provider with these turns; clients that take long to make are kept."""
    if kind not in (Bedrock, Google):
        provider = kind(*turns)
        return provider, provider.model(name)
    provider, model = _kept(kind, name)
    provider.turns, provider.bodies = turns, []
    return provider, model


async def filled(*contents: str) -> InMemoryPlanStore:
    store = InMemoryPlanStore()
    await apply(store, *(Add(content) for content in contents or ('a', 'b')))
    return store


# --- The guarantee ----------------------------------------------------------------------------------------------

PLAN_CALLS = [
    [call('write_plan', items=[{'content': 'a'}, {'content': 'b'}])],
    [
        call('look', at=1),
        call('update_task_status', task_id='1', status='in_progress'),
        call('look', at=2),
        call('add_task', content='c'),
    ],
    [call('picture')],
    [call('flaky')],
    [call('flaky'), call('update_task_status', task_id='1', status='completed')],
    [call('update_task_status', task_id='9', status='completed')],
    [call('write_plan', items=[{'id': '2', 'content': 'b'}, {'content': 'd'}])],
    [call('look', at=number) for number in range(6)],
    [call('read_plan')],
    [call('update_task_statuses', updates=[{'task_id': '2', 'status': 'completed'}])],
]
WITHOUT = [
    [part if part.tool_name in ('look', 'picture', 'flaky') else call('look', at=0) for part in turn]
    for turn in PLAN_CALLS
]


async def long_run(provider: Provider, model: Model, *capabilities: Any, **options: Any) -> Any:
    """Run many turns with tools beside each other, a retry, pictures, and a plan that changes every turn."""
    agent = Agent(model, instructions='Be brief.', capabilities=capabilities, **options)
    tries: list[int] = []

    @agent.tool_plain
    def look(at: int) -> str:
        return f'seen {at}'

    @agent.tool_plain
    def picture() -> list[Any]:
        return ['here', PICTURE]

    @agent.tool_plain
    def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ModelRetry('again')
        return 'fine'

    first = await agent.run(['go', PICTURE])
    return await agent.run('and now the rest', message_history=first.all_messages())


def common(provider: Provider) -> list[bool]:
    """Return for each request but the last whether all of it, before the reminder, is the start of the next."""
    pairs = zip(provider.bodies, provider.bodies[1:], strict=False)
    found: list[bool] = []
    for body, following in pairs:
        lasting = reminder_at(provider, body)
        lasting = len(provider.blocks(body)) if lasting is None else lasting
        if '["assistant", {"text": "."}]' in provider.before(body, lasting)[-1:]:
            lasting -= 1  # What the mapping puts between a tool's answer and a text for models that take them apart.
        same = provider.before(body, lasting) == provider.before(following, lasting)
        found.append(same and provider.head(body) == provider.head(following))
    return found


def reminder_at(provider: Provider, body: dict[str, Any]) -> int | None:
    """Return the number of blocks before the reminder."""
    blocks = provider.blocks(body)
    return next((at for at, (_, block) in enumerate(blocks) if '<plan-reminder>' in json.dumps(block)), None)


@every(EVERY)
async def test_everything_before_the_point_is_the_start_of_the_next_request(kind, name):
    provider, model = served(kind, name, *WITHOUT, 'done')
    await long_run(provider, model)
    plain = common(provider)
    provider, model = served(kind, name, *PLAN_CALLS, 'done')
    await long_run(provider, model, Planning(store=InMemoryPlanStore()))
    assert len(provider.bodies) == len(PLAN_CALLS) + 2
    # A request that starts anew also without a plan (as when a mapping announces pictures of tools) is not ours.
    assert common(provider) == plain
    assert plain.count(False) <= 1
    for body, following, lasts in zip(provider.bodies, provider.bodies[1:], plain, strict=False):
        for point in provider.points(body) if lasts else ():
            assert provider.before(body, point) == provider.before(following, point)
    for body in provider.bodies[1:]:
        before, points = reminder_at(provider, body), provider.points(body)
        assert before is not None
        assert json.dumps(body).count('<plan-reminder>') == 1
        assert (len(points), count_markers(body)) == ((0, 0) if (kind, name) in POINTLESS else (1, 1))
        if (kind, name) in [*TO_THE_END, *TO_THE_TEXT]:
            # Nothing stands between the point and the reminder, so no tool answer is left out.
            assert points == [before]
        if (kind, name) in TO_THE_END:
            assert before == len(provider.blocks(body)) - 2
        if (kind, name) in TO_THE_USER:
            assert provider.blocks(body)[points[0] - 1][0] == 'user'
            assert points[0] <= before
    assert reminder_at(provider, provider.bodies[0]) is None


@every(TO_THE_END)
async def test_a_point_stands_behind_the_answer_of_a_tool(kind, name):
    provider, model = served(kind, name, call('read_plan'))
    await Agent(model, capabilities=[Planning(store=await filled())]).run('go')
    first, second = provider.bodies
    (at,) = provider.points(second)
    assert 'read_plan' not in provider.before(second)[0]
    assert '0 of 2 resolved' in provider.before(second)[at - 1]
    assert provider.points(first) == [1]


# --- Few enough, and the user's left as they are -----------------------------------------------------------------

SETTINGS: dict[type[Provider], dict[str, Any]] = {
    Anthropic: {'anthropic_cache_tool_definitions': True, 'anthropic_cache_instructions': True},
    Bedrock: {'bedrock_cache_tool_definitions': True, 'bedrock_cache_instructions': True},
    OpenAIChat: {'openai_cache_instructions': True},
    OpenAIResponses: {'openai_cache_instructions': True},
    OpenRouter: {'openrouter_cache_tool_definitions': True, 'openrouter_cache_instructions': True},
}
MESSAGES: dict[type[Provider], tuple[dict[str, Any], ...]] = {
    Anthropic: ({'anthropic_cache': True}, {'anthropic_cache_messages': True}),
    Bedrock: ({'bedrock_cache_messages': True},),
    OpenAIChat: ({},),
    OpenAIResponses: ({},),
    OpenRouter: ({'openrouter_cache_messages': True},),
}


@every(POINTED)
@pytest.mark.parametrize('settings', ['none', 'all', 'unified'])
async def test_at_most_four_points_are_sent_and_ours_is_among_them(kind, name, settings):
    choices: tuple[dict[str, Any], ...] = ({},)
    if settings == 'all':
        choices = tuple(SETTINGS[kind] | more for more in MESSAGES[kind])
    elif settings == 'unified':
        choices = ({'cache': True},)
    for choice in choices:
        provider, model = served(kind, name, call('read_plan'), call('add_task', content='c'))
        history: list[ModelMessage] = []
        for number in range(6):
            history += [
                ModelRequest([UserPromptPart([f'part {number}', CachePoint()])]),
                ModelResponse([TextPart('yes')]),
            ]
        planning = Planning(store=await filled())
        agent = Agent(model, instructions='Be brief.', capabilities=[planning], model_settings=choice)
        await agent.run('go', message_history=history)
        assert len(provider.bodies) == 3
        for body in provider.bodies:
            automatic = 'cache_control' in body
            # For these the mapping sends all of them; the provider takes the last four.
            unlimited = kind in (OpenAIChat, OpenAIResponses) or name.startswith('google')
            assert count_markers(body) <= 4 or unlimited
            before = reminder_at(provider, body)
            assert before is not None
            if (kind, name) in [*TO_THE_END, *TO_THE_TEXT]:
                assert before in provider.points(body)[-2:]
            assert automatic == ('anthropic_cache' in choice)


def ttls(value: Any) -> list[str]:
    """Return how long each point is to last, in their order."""
    if isinstance(value, list):
        return [ttl for entry in value for ttl in ttls(entry)]
    if not isinstance(value, dict):
        return []
    own = [entry['ttl'] for key, entry in value.items() if key in ('cache_control', 'cachePoint') and 'ttl' in entry]
    return [
        *(ttl for key, entry in value.items() if key not in ('cache_control', 'cachePoint') for ttl in ttls(entry)),
        *own,
    ]


WITH_TTL = [(Anthropic, 'claude-sonnet-5-5'), (Bedrock, CLAUDE), (OpenRouter, 'anthropic/claude-sonnet-5.5')]


@every(WITH_TTL)
@pytest.mark.parametrize('ours', ['5m', '1h'])
@pytest.mark.parametrize('theirs', ['5m', '1h'])
async def test_how_long_the_users_points_last_is_not_changed(kind, name, ours, theirs):
    async def sent(*capabilities: Any) -> list[str]:
        provider, model = served(kind, name)
        agent = Agent(model, capabilities=capabilities)
        history = [ModelRequest([UserPromptPart(['a', CachePoint(ttl=theirs)])]), ModelResponse([TextPart('b')])]
        await agent.run('go', message_history=history)
        return ttls(provider.bodies[0]['messages'])

    alone = await sent()
    assert alone == [theirs]
    together = await sent(Planning(store=await filled(), cache_ttl=ours))
    assert together[:1] == alone
    # An hour behind five minutes would make hours of those.
    assert together[1:] == [ours if theirs == '1h' else '5m']


@every(WITH_TTL)
async def test_an_hour_is_asked_for_where_nobody_asks_for_less(kind, name):
    for settings, expected in (
        ({}, {'1h'}),
        ({'cache': '1h'}, {'1h'}),
        ({'cache': {'retention': '5m'}}, {'5m'}),
        ({'cache': '5m'}, {'5m'}),
        ({f'{kind.__name__.lower()}_cache_instructions': '5m'}, {'5m'}),
    ):
        for where in ('agent', 'model'):
            provider, model = served(kind, name)
            if where == 'model':
                model = kind_of(provider, model, settings)
            planning = Planning(store=await filled(), cache_ttl='1h')
            own = settings if where == 'agent' else {}
            await Agent(model, instructions='i', capabilities=[planning], model_settings=own).run('go')
            body = provider.bodies[0]
            assert {*ttls([body[part] for part in body if part != 'cache_control'])} == expected, (settings, where)


def kind_of(provider: Provider, model: Model, settings: dict[str, Any]) -> Model:
    """Return the model with settings of its own."""
    return type(model)(model.model_name, provider=model._provider, settings=settings)  # type: ignore[call-arg]


@every([(Anthropic, 'claude-sonnet-5-5'), (Bedrock, CLAUDE), (Bedrock, NOVA)])
@pytest.mark.parametrize('capabilities', [[], [Caching()]], ids=['alone', 'with the cache on'])
async def test_a_wide_turn_keeps_the_end_of_the_request_before_it_in_reach(kind, name, capabilities):
    # A point finds what was cached up to twenty blocks before it.
    wide = [call('look', at=number) for number in range(12)]
    provider, model = served(kind, name, [call('look', at=0)], wide, [call('add_task', content='c')])
    result = await long_run(provider, model, Planning(store=await filled()), *capabilities)
    ends = [reminder_at(provider, body) for body in provider.bodies]
    points = [provider.points(body) for body in provider.bodies]
    assert points[:4] == [[ends[0]], [ends[1]], [ends[1], ends[2]], [ends[3]]]
    assert all(count_markers(body) <= 4 for body in provider.bodies)
    assert_clean(result.all_messages())


@every([(Anthropic, 'claude-sonnet-5-5'), (Bedrock, CLAUDE), (Bedrock, NOVA)])
async def test_where_the_cache_is_on_ours_is_the_only_point_of_the_conversation(kind, name):
    for settings, expected in (
        ({'cache': True}, '5m'),
        ({'cache': '1h'}, '1h'),
        ({'cache': {}}, '5m'),
        ({'cache': {'retention': '1h'}}, '1h'),
        ({'cache': {'messages': False}}, '5m'),
        ({'cache': False}, '5m'),
    ):
        provider, model = served(kind, name, call('add_task', content='c'))
        planning = Planning(store=await filled())
        await Agent(model, instructions='i', capabilities=[planning], model_settings=settings).run('go')
        for body in provider.bodies:
            assert provider.points(body) == [reminder_at(provider, body)], settings
            assert 'cache_control' not in body
            heads = sum(count_markers(body.get(part)) for part in ('tools', 'toolConfig', 'system'))
            assert (heads > 0) == (settings['cache'] is not False)
            assert ttls(body['messages']) == [expected], settings


async def test_behind_a_fallback_ours_is_the_only_point_of_the_conversation_too():
    for other in (Anthropic().model('claude-opus-5-5'), Bedrock().model()):
        provider = Anthropic(call('add_task', content='c'))
        model = FallbackModel(provider.model(), other)
        agent = Agent(model, instructions='i', capabilities=[Caching(), Planning(store=await filled())])
        await agent.run('go')
        for body in provider.bodies:
            assert provider.points(body) == [reminder_at(provider, body)]
            assert 'cache_control' not in body


@every(TO_THE_USER)
async def test_where_only_a_users_message_takes_a_point_none_stands_behind_the_reminder_either(kind, name):
    provider, model = served(kind, name, call('read_plan'), call('add_task', content='c'))
    agent = Agent(model, instructions='i', capabilities=[Caching(), Planning(store=await filled())])
    await agent.run('go')
    for body in provider.bodies:
        asked = next(at for at, (role, _) in enumerate(provider.blocks(body), 1) if role == 'user')
        # The other is behind the instructions, which are messages here.
        assert [point - asked for point in provider.points(body)] == [-1, 0]
        assert reminder_at(provider, body) >= asked


async def test_what_a_provider_is_told_by_its_own_settings_is_left_alone():
    provider = Anthropic()
    agent = Agent(provider.model(), capabilities=[Planning(store=await filled()), Caching()])
    await agent.run('go', model_settings={'anthropic_cache': True})
    assert provider.bodies[0]['cache_control'] == {'type': 'ephemeral', 'ttl': '5m'}
    assert provider.points(provider.bodies[0]) == [1]


# --- Nothing to stand behind -------------------------------------------------------------------------------------

PROMPTS: dict[str, Any] = {
    'none': None,
    'empty': '',
    'space': ' ',
    'nothing': [],
    'empty text': [''],
    'empty content': [TextContent('')],
    'a point': [CachePoint()],
    'points': [CachePoint(), CachePoint()],
    'a point behind nothing': ['', CachePoint()],
    'a point before text': [CachePoint(), 'x'],
    'a point behind text': ['x', CachePoint()],
    'a picture': [PICTURE],
    'a document': [DOCUMENT],
    'a point behind a picture': [PICTURE, CachePoint()],
}
ASKED = [ModelRequest([UserPromptPart('a')]), ModelResponse([ToolCallPart('look', {'at': 1}, 'id')])]
HISTORIES: dict[str, list[ModelMessage] | None] = {
    'none': None,
    'system': [ModelRequest([SystemPromptPart('be')])],
    'response': [ModelResponse([TextPart('hi')])],
    'empty answer': [*ASKED, ModelRequest([ToolReturnPart('look', '', 'id')])],
    'picture answer': [*ASKED, ModelRequest([ToolReturnPart('look', [PICTURE], 'id')])],
}


@every(EVERY)
async def test_a_plan_is_never_why_a_request_cannot_be_sent(kind, name):
    async def attempt(prompt: Any, history: Any, *capabilities: Any) -> tuple[str | None, Provider]:
        provider, model = served(kind, name)
        agent = Agent(model, instructions='Be brief.', capabilities=capabilities)
        try:
            await agent.run(prompt, message_history=history)
        except Exception as error:
            return f'{type(error).__name__}: {error}', provider
        return None, provider

    for told, prompt in PROMPTS.items():
        for before, history in HISTORIES.items():
            wrong, provider = await attempt(prompt, history, Planning(store=await filled()))
            if wrong is not None:
                assert wrong == (await attempt(prompt, history))[0], (told, before)
                continue
            (body,) = provider.bodies
            assert json.dumps(body).count('<plan-reminder>') == 1, (told, before)
            assert count_markers(body) <= 2, (told, before)


@pytest.mark.parametrize('prompt', [None, '', [''], [CachePoint()]])
async def test_a_first_request_with_nothing_before_the_reminder_is_sent_without_a_point(prompt):
    provider = Anthropic()
    agent = Agent(provider.model(), capabilities=[Planning(store=await filled())], instructions='Be brief.')
    result = await agent.run(prompt)
    assert prompt in (None, *(part.content for message in result.all_messages() for part in message.parts[:1]))
    assert count_markers(provider.bodies[0]['messages']) == 0
    assert '[ ] 1 a' in provider.before(provider.bodies[0])[-1]


async def test_an_empty_prompt_in_a_conversation_still_has_its_point():
    provider = Anthropic()
    agent = Agent(provider.model(), capabilities=[Planning(store=await filled(), cache_ttl='1h')])
    first = await agent.run('go')
    await agent.run('', message_history=first.all_messages())
    assert ttls(provider.bodies[1]['messages']) == ['1h']


async def test_a_users_own_point_at_the_end_is_enough():
    provider = Anthropic()
    agent = Agent(provider.model(), capabilities=[Planning(store=await filled(), cache_ttl='1h')])
    await agent.run(['go', CachePoint(ttl='5m')])
    assert ttls(provider.bodies[0]['messages']) == ['5m']
    assert provider.points(provider.bodies[0]) == [1]


async def test_a_model_without_points_gets_the_reminder_and_a_refusal_as_an_error():
    provider = OpenAIChat(call('update_task_status', task_id='9', status='completed'))
    agent = Agent(provider.model('gpt-5.5'), capabilities=[Planning(store=await filled())])
    await agent.run('go')
    first, second = provider.bodies
    assert count_markers([first, second]) == 0
    assert '[ ] 1 a' in json.dumps(first['messages'][-1])
    answer = next(message for message in second['messages'] if message['role'] == 'tool')
    assert "there is no step '9'" in answer['content']
    assert 'Plan:' not in answer['content']


async def test_the_tools_are_as_small_on_the_wire():
    provider = Anthropic()
    await Agent(provider.model(), capabilities=[Planning()]).run('go')
    assert len(json.dumps(provider.bodies[0]['tools'])) <= 1_700


# --- Nothing of it is kept ---------------------------------------------------------------------------------------


def assert_clean(messages: list[ModelMessage]) -> None:
    text = ModelMessagesTypeAdapter.dump_json(messages).decode()
    assert 'plan-reminder' not in text
    assert 'cache-point' not in text
    assert 'Automatic, not from the user' not in text


@every(EVERY)
async def test_no_history_holds_a_reminder_or_a_point(kind, name):
    provider, model = served(kind, name, *PLAN_CALLS, 'done')
    result = await long_run(provider, model, Planning(store=InMemoryPlanStore()))
    for messages in (result.all_messages(), result.new_messages()):
        assert messages
        assert_clean(messages)
    # A conversation that went through JSON goes on as if it had not.
    stored = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())
    agent = Agent(model, instructions='Be brief.', capabilities=[Planning(store=await filled('again'))])
    more = await agent.run('go on', message_history=stored)
    assert_clean(more.all_messages())
    assert json.dumps(provider.bodies[-1]).count('<plan-reminder>') == 1
    assert '[ ] 1 again' in json.dumps(provider.bodies[-1])


async def test_a_streamed_run_keeps_nothing_either():
    provider = Anthropic(call('add_task', content='c'))
    agent = Agent(provider.model(), capabilities=[Planning(store=await filled())])
    async with agent.run_stream('go') as stream:
        await stream.get_output()
    assert_clean(stream.all_messages())
    async with agent.iter('go') as run:
        async for _ in run:
            assert_clean(run.all_messages())
    assert [json.dumps(body).count('<plan-reminder>') for body in provider.bodies] == [1] * len(provider.bodies)


# --- Beside others -----------------------------------------------------------------------------------------------


class Clock(AbstractCapability[Any]):
    """Appends a tail of its own to each request, as other reminders do; it changes every time."""

    def __init__(self) -> None:
        self.requests = 0

    async def wrap_model_request(self, ctx, *, request_context, handler):
        from dataclasses import replace

        self.requests += 1
        said = f'<clock>{self.requests}</clock>'
        *before, last = request_context.messages
        last = replace(last, parts=[*last.parts, UserPromptPart([CachePoint(), said])])
        return await handler(replace(request_context, messages=[*before, last]))


COMPOSED: dict[str, Callable[[Any], list[Any]]] = {
    'behind ours': lambda plan: [plan, Clock()],
    'before ours': lambda plan: [Clock(), plan],
    'with the cache on': lambda plan: [Caching(), plan],
    'prefixed': lambda plan: [plan.prefix_tools('p')],
    'all of it': lambda plan: [Caching(), plan.prefix_tools('p'), Clock()],
}


@pytest.mark.parametrize('how', COMPOSED)
@every([(Anthropic, 'claude-sonnet-5-5'), (Bedrock, CLAUDE), (OpenAIResponses, 'gpt-6-sol')])
async def test_beside_other_capabilities_the_point_still_ends_what_lasts(kind, name, how):
    prefix = 'p_' if how in ('prefixed', 'all of it') else ''
    turns = [[ToolCallPart(f'{prefix}add_task', {'content': text})] for text in 'xyz']
    provider, model = served(kind, name, *turns)
    agent = Agent(model, instructions='i', capabilities=COMPOSED[how](Planning(store=await filled())))
    result = await agent.run('go')
    assert len(provider.bodies) == 4
    for body, following in zip(provider.bodies, provider.bodies[1:], strict=False):
        points = provider.points(body)
        before = reminder_at(provider, body)
        assert before in points
        assert count_markers(body) <= 4
        assert provider.before(body, before) == provider.before(following, before)
        assert f'{prefix}update_task_status' in json.dumps(body)
    assert_clean(result.all_messages())
    assert 'clock' not in str(result.all_messages())


async def test_a_conversation_that_is_cut_down_starts_anew_once_and_is_cached_again():
    class Compaction(AbstractCapability[Any]):
        async def before_model_request(self, ctx, request_context):
            if len(request_context.messages) > 5:
                request_context.messages = [request_context.messages[0], *request_context.messages[-2:]]
            return request_context

    provider = Anthropic(*([call('add_task', content=text)] for text in 'uvwxyz'))
    agent = Agent(provider.model(), capabilities=[Compaction(), Planning(store=await filled())])
    result = await agent.run('go')
    for body in provider.bodies:
        before = reminder_at(provider, body)
        assert provider.points(body) == [before]
        assert json.dumps(body).count('<plan-reminder>') == 1
    assert_clean(result.all_messages())
    assert '8 steps' in provider.before(provider.bodies[-1])[-1] or '0 of 8' in provider.before(provider.bodies[-1])[-1]


async def test_a_child_with_a_plan_of_its_own_leaves_the_requests_of_its_parent_alone():
    inner, outer = (
        Anthropic([call('add_task', content='inner')]),
        Anthropic([call('delegate', task='x')], [call('add_task', content='outer')]),
    )
    child = Agent(inner.model(), capabilities=[Planning(store=await filled('child step'))])
    parent = Agent(outer.model(), capabilities=[Planning(store=await filled('parent step'))])

    @parent.tool_plain
    async def delegate(task: str) -> str:
        return (await child.run(task)).output

    await parent.run('go')
    assert 'child step' not in json.dumps(outer.bodies)
    assert 'parent step' not in json.dumps(inner.bodies)
    for provider in (inner, outer):
        assert common(provider) == [True] * (len(provider.bodies) - 1)
        assert all(provider.points(body) == [reminder_at(provider, body)] for body in provider.bodies)


async def test_runs_at_the_same_time_keep_their_requests_apart():
    import asyncio

    provider = Anthropic()
    turns = {'one': 'uvwx', 'two': 'abcd'}

    def record(body: dict[str, Any]) -> list[ToolCallPart] | str:
        name = 'one' if '"one"' in json.dumps(body['messages'][0]) else 'two'
        mine = [other for other in provider.bodies if f'"{name}"' in json.dumps(other['messages'][0])]
        provider.bodies.append(body)
        left = turns[name][len(mine) :]
        return [call('add_task', content=f'{name} {left[0]}')] if left else 'done'

    provider.record = record  # type: ignore[method-assign]
    agent = Agent(provider.model(), capabilities=[Planning()])
    await asyncio.gather(agent.run('one'), agent.run('two'))
    for name, other in (('one', 'two'), ('two', 'one')):
        mine = Anthropic()
        mine.bodies = [body for body in provider.bodies if f'"{name}"' in json.dumps(body['messages'][0])]
        assert len(mine.bodies) == 5
        assert f'{other} {turns[other][0]}' not in json.dumps(mine.bodies)
        assert common(mine) == [True] * 4
        assert f'[ ] 4 {name} ' in mine.before(mine.bodies[-1])[-1]
