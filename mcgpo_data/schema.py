"""The tables: single source of column names, types and meanings.

Every Parquet file that this package writes has exactly one of these Arrow schemas; nothing is ever inferred from data.
`schemas/*.schema.json` is generated from this module (`python -m mcgpo_data.jsonschema schemas`).

    rollouts      one row per rollout (one attempt at a task)
    steps         one row per decision, with its text; messages are stored once and referenced by range
    decisions     one row per decision and rule: the keys that are matched
    preferences   one row per preference pair
    sources       one row per rollout: which file and record it came from (the only table that depends on file layout)
    advantages    one row per step, in a table `advantages_<estimator>` each; columns that explain it vary by estimator

How text is stored once: `steps.messages` holds only the messages that this step *adds*: what the policy read since its
last response, then the response itself as the last message. The prompt of step t is the concatenation of `messages` of
steps `prompt_from..t` of the same rollout, less the last message of step t. A log in which every step carries its own
complete prompt has `prompt_from == step_index`; a conversation has `prompt_from == 0`.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

SCHEMA_VERSION: Final = "1.0"

GROUP_SOURCES: Final = ("explicit", "task", "initial_hash", "text_cluster", "user")
OUTCOME_KINDS: Final = ("terminal", "sum_of_steps", "max_of_steps", "mean", "missing")
TERMINAL_STATUSES: Final = ("done", "truncated_steps", "truncated_tokens", "error_infra", "error_agent", "unknown")
OBSERVATION_SOURCES: Final = ("logged_pre", "shifted_post", "from_messages", "missing")
ACTION_KINDS: Final = ("tool_call", "env_command", "code", "message", "finish", "invalid", "lost")

S, I16, I32, I64, F64, B = pa.string(), pa.int16(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()

TOOL_CALL: Final = pa.struct([("id", S), ("type", S), ("function", pa.struct([("name", S), ("arguments", S)]))])
MESSAGE: Final = pa.struct(
    [("role", S), ("content", S), ("name", S), ("tool_call_id", S), ("tool_calls", pa.list_(TOOL_CALL))]
)
MESSAGES: Final = pa.list_(MESSAGE)


def _field(name: str, type_: pa.DataType, doc: str, *, null: bool = True) -> pa.Field:
    return pa.field(name, type_, nullable=null, metadata={"doc": doc})


ROLLOUTS: Final = pa.schema(
    [
        _field("rollout_id", S, "Unique id of the rollout.", null=False),
        _field("task_id", S, "The problem instance: game file, question, example_id, instance_id.", null=False),
        _field("group_id", S, "The set of rollouts whose outcomes may be compared.", null=False),
        _field("group_source", S, f"How group_id was found; one of {', '.join(GROUP_SOURCES)}.", null=False),
        _field("policy", S, "Model or agent that acted."),
        _field("policy_version", S, "Checkpoint or global step of the policy."),
        _field("instruction", S, "Task text that the agent saw."),
        _field("outcome", F64, "Graded result on the source's own scale. Null: unscored (never the same as zero)."),
        _field("outcome_min", F64, "Declared lower end of the scale of outcome."),
        _field("outcome_max", F64, "Declared upper end of the scale of outcome."),
        _field("success", B, "True or false only where the source says so."),
        _field("outcome_kind", S, f"What outcome is; one of {', '.join(OUTCOME_KINDS)}.", null=False),
        _field("evidence_outcome", F64, "Outcome in [0, 1] that counts as evidence in this build. Null: no evidence."),
        _field("terminal_status", S, f"How it ended; one of {', '.join(TERMINAL_STATUSES)}.", null=False),
        _field("order_trusted", B, "False when the order of the steps is known to be unreliable.", null=False),
        _field("num_steps", I32, "Number of decisions.", null=False),
        _field("final_observation", S, "What the agent saw after its last action, where logged."),
        _field("final_state_key", I64, "Key of the exact state after the last action (60-bit sha256)."),
        _field("action_sequence_key", I64, "Key of the sequence of exact actions (60-bit sha256).", null=False),
        _field("source_format", S, "Reader that understood the record.", null=False),
        _field("metadata", S, "Everything else the source said about the rollout, as a JSON object."),
    ]
)

STEPS: Final = pa.schema(
    [
        _field("rollout_id", S, "Rollout this decision belongs to.", null=False),
        _field("step_index", I32, "Position in the rollout, from 0, in time order.", null=False),
        _field("observation", S, "What the agent saw before the action. Null where it is the last prompt message."),
        _field("observation_source", S, f"Phase of observation; one of {', '.join(OBSERVATION_SOURCES)}.", null=False),
        _field("messages", MESSAGES, "Messages this step adds; the last one is the response. Null in a thin store."),
        _field("prompt_from", I32, "First step whose messages belong to the prompt of this step.", null=False),
        _field("thought", S, "Reasoning that the source stores apart from the response."),
        _field("action_text", S, "Action parsed from the response. Null: none could be parsed."),
        _field("action_kind", S, f"One of {', '.join(ACTION_KINDS)}.", null=False),
        _field("action_valid", B, "Whether the environment accepted the action. Null: not logged."),
        _field("reward", F64, "Immediate reward. Null: not logged (never the same as zero)."),
        _field("done", B, "The episode ended with this step."),
        _field("truncated", B, "The episode was cut by a limit at this step."),
        _field("admissible_actions", pa.list_(S), "Actions on offer, where logged."),
        _field("prompt_token_ids", pa.list_(I32), "Token ids of the prompt, where logged."),
        _field("response_token_ids", pa.list_(I32), "Token ids of the response, where logged."),
        _field(
            "response_logprobs", pa.list_(pa.float32()), "Behaviour log-probabilities of response_token_ids (nats)."
        ),
        _field("metadata", S, "Everything else the source said about the step, as a JSON object."),
    ]
)

DECISIONS: Final = pa.schema(
    [
        _field("group_id", S, "Group of the rollout.", null=False),
        _field("rollout_id", S, "Rollout.", null=False),
        _field("step_index", I32, "Step.", null=False),
        _field("rule", I16, "Index of the rule, 0 = finest.", null=False),
        _field("rule_name", S, "Name of the rule.", null=False),
        _field("state_summary", S, "State before the action, as the rule sees it."),
        _field("progress", S, "Rubric progress observed before the action; empty where there is none.", null=False),
        _field("action", S, "Canonical action under the rule. Null: none."),
        _field("valid", B, "Whether the decision may be a candidate and evidence.", null=False),
        _field("rollout_key", I64, "60-bit sha256 of rollout_id.", null=False),
        _field("state_key", I64, "60-bit sha256 of (rule, state_summary).", null=False),
        _field("progress_key", I64, "60-bit sha256 of (rule, progress).", null=False),
        _field("history_key", I64, "60-bit key of all observations and actions so far (and rule).", null=False),
        _field("action_key", I64, "60-bit sha256 of action.", null=False),
    ]
)


def _side(side: str) -> list[pa.Field]:
    return [
        _field(f"{side}_rollout_id", S, f"Rollout of the {side} decision.", null=False),
        _field(f"{side}_step", I32, f"Step of the {side} decision.", null=False),
        _field(f"{side}_action", S, f"Canonical action of the {side} decision.", null=False),
        _field(f"{side}_outcome", F64, f"Outcome in [0, 1] of the {side} rollout itself (not its evidence)."),
        _field(f"{side}_fold", I16, f"Fold of the {side} rollout.", null=False),
        _field(
            f"{side}_support",
            I64,
            f"Evidence rollouts for the {side} action, in folds that hold neither side.",
            null=False,
        ),
        _field(f"{side}_mean", F64, "Mean outcome of these evidence rollouts, in [0, 1].", null=False),
        _field(f"{side}_estimate", F64, "Mean shrunken towards the context mean: p of method section 4.", null=False),
    ]


def _side_text(side: str) -> list[pa.Field]:
    return [
        _field(f"{side}_prompt", MESSAGES, f"Messages the policy saw before the {side} response: its own history."),
        _field(f"{side}_response", MESSAGES, f"The {side} response: one assistant message."),
    ]


PREFERENCES_THIN: Final = pa.schema(
    [
        _field(
            "pair_id",
            S,
            "Stable id: 16 hex digits of the sha256 of group, rule, context and both decisions.",
            null=False,
        ),
        _field("group_id", S, "Group in which the context was matched (the task with scope=task).", null=False),
        _field("task_id", S, "Task of the pair.", null=False),
        _field("rule", I16, "Index of the rule that matched, 0 = finest.", null=False),
        _field("rule_name", S, "Name of the rule.", null=False),
        _field("context", S, "Context key: equal for all decisions matched here.", null=False),
        _field("state_summary", S, "State summary of the context."),
        _field("progress", S, "Rubric progress of the context."),
        *_side("chosen"),
        *_side("rejected"),
        _field(
            "context_mean",
            F64,
            "Mean outcome of all evidence entries of the context in the evidence folds.",
            null=False,
        ),
        _field("delta", F64, "chosen_estimate - rejected_estimate, > 0.", null=False),
        _field("support", F64, "Harmonic mean 2ab/(a+b) of the two supports.", null=False),
        _field("class_weight", F64, "Weight of the comparison class, in [0, 1].", null=False),
        _field("class_pairs", I32, "Number of pairs kept in this class.", null=False),
        _field("weight", F64, "class_weight / class_pairs: the weight of this pair in the loss.", null=False),
        _field("builder_version", S, "Version of mcgpo_data that made the pair.", null=False),
    ]
)

PREFERENCES: Final = pa.schema(list(PREFERENCES_THIN) + _side_text("chosen") + _side_text("rejected"))

SOURCES: Final = pa.schema(
    [
        _field("rollout_id", S, "Rollout.", null=False),
        _field("source_file", S, "Log file, as named on the command line.", null=False),
        _field("source_row", I64, "Line (JSONL, from 1) or record (others, from 0) of its first step."),
    ]
)

ADVANTAGES: Final = pa.schema(
    [
        _field("group_id", S, "Group of the rollout.", null=False),
        _field("rollout_id", S, "Rollout.", null=False),
        _field("step_index", I32, "Step.", null=False),
        _field("episode_advantage", F64, "Of the rollout among those of its group. Never NaN.", null=False),
        _field("step_advantage", F64, "Of the step; 0 for estimators without a step term. Never NaN.", null=False),
        _field("advantage", F64, "episode_weight * episode_advantage + step_weight * step_advantage.", null=False),
        _field("scored", B, "Whether the rollout's outcome is known; if not, all its numbers are 0.", null=False),
        _field("valid", B, "Whether the action was valid.", null=False),
        _field("group_size", I64, "Scored rollouts of the group.", null=False),
        _field("group_mean", F64, "Mean score of the group.", null=False),
        _field("group_std", F64, "Standard deviation of the scores of the group.", null=False),
        _field("anchor_size", I64, "Steps of the group taken in this state."),
        _field("anchor_actions", I64, "Different actions among them."),
        _field("anchor_mean", F64, "Mean return of these steps."),
        _field("anchor_term", F64, "Next value, standardised within the state."),
        _field("group_term", F64, "Gain in value, standardised within the group."),
        _field("action_size", I64, "Steps of the group with this action in this state."),
        _field("action_mean", F64, "Mean return of these steps."),
        _field("shrunken_mean", F64, "action_mean, shrunken towards anchor_mean."),
        _field("gate", F64, "Share of the spread in this state that actions explain, and how far it is trusted."),
        _field("return", F64, "Discounted rewards from this step on."),
        _field("distance", I64, "Fewest observed steps from the state to success; one more than any where none lead."),
        _field("next_distance", I64, "The same for the state after the action."),
        _field("reachable", B, "Whether success was reached from the state after the action."),
        _field("value", F64, "Value of next_distance."),
        _field("levels", I64, "Lengths of history at which the step differs from others."),
        _field("state_value", F64, "Value of the state."),
        _field("next_value", F64, "Value of the state after the action."),
        _field("action_value", F64, "Value of the action in the state."),
        _field("delta", F64, "Reward and next value less the value of the state."),
        _field("gae", F64, "Discounted sum of delta from this step on, before it is standardised."),
    ]
)

TABLES: Final = {
    "rollouts": ROLLOUTS,
    "steps": STEPS,
    "decisions": DECISIONS,
    "preferences": PREFERENCES,
    "sources": SOURCES,
    "advantages": ADVANTAGES,
}
