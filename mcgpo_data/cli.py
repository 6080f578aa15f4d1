"""`mcgpo` and `mcgpo-build-prefs`: parse, call, print, exit code. Results go to stdout, progress and notes to
stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from mcgpo_data import __version__
from mcgpo_data.config import BuildConfig, build_config
from mcgpo_data.errors import McgpoError, UsageError

Command = TypeVar("Command", bound=Callable[..., Any])

EXIT_CODES = """Exit codes: 0 done, 1 our bug, 2 usage or no input, 3 bad data, 4 no pairs, 5 output exists,
6 out of resources, 130 interrupted."""

BUILD_EXAMPLES = f"""Turn trajectory LOGS (files, folders, or one existing build) into weighted preference pairs.

\b
Examples:
  mcgpo-build-prefs logs/ -o out                          whatever is in logs/, found by content
  mcgpo-build-prefs runs/*.jsonl.gz -o out --folds 4      other options: one flag each, or --config b.yaml
  mcgpo-build-prefs out -o out2 --seed 1 --form thin      rebuild from an existing build in seconds

{EXIT_CODES}"""


def _build_options(command: Command) -> Command:
    """One option per field of `BuildConfig`."""
    for f in reversed(fields(BuildConfig)):
        choices = f.metadata["choices"]
        default = "" if f.default is None else f"  [default: {f.default}]"
        command = click.option(
            f"--{f.name.replace('_', '-')}",
            f.name,
            default=None,
            metavar="|".join(choices) or ("LOW,HIGH" if f.name == "outcome_range" else str(f.type).upper()),
            help=f.metadata["help"] + default,
        )(command)
    return command


def _output_options(command: Command) -> Command:
    command = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(command)
    return click.option("-q", "--quiet", is_flag=True, help="No progress, no notes.")(command)


def _input_options(command: Command) -> Command:
    for option in (
        click.option(
            "--max-bad-fraction", type=float, default=0.1, show_default=True, help="Share of unusable records allowed."
        ),
        click.option(
            "--mapping", metavar="FILE|NAME", help="YAML that describes a home-made log layout (docs/mapping.md)."
        ),
        click.option("--format", "format_name", metavar="NAME", help="Reader to use instead of detection."),
        click.option(
            "--rules", default="auto", show_default=True, metavar="NAME|FILE", help="Task rules (docs/rules.md)."
        ),
        click.option("--config", "config_file", metavar="YAML", help="File with options, one `name: value` per line."),
    ):
        command = option(command)
    return command


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class _Quiet:
    """Ends quietly when the reader of our output goes away, as in `mcgpo show out | head`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command."""
        try:
            return super().invoke(ctx)  # type: ignore[misc]  # the next class is a click command
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return None


class _Group(_Quiet, click.Group):
    pass


class _Command(_Quiet, click.Command):
    pass


@click.group(cls=_Group, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="mcgpo")
def cli() -> None:
    """Weighted action preferences from logged rollouts of LLM agents.

    \b
    Examples:
      mcgpo build-prefs logs/ -o out      make preference pairs
      mcgpo show out                      browse them
      mcgpo explain out PAIR_ID           why is this side chosen?
    """


@cli.command("build-prefs", cls=_Command, help=BUILD_EXAMPLES, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="mcgpo")
@click.argument("logs", nargs=-1)
@click.option("-o", "--output", "out", required=True, metavar="OUT", help="Folder to make.")
@click.option("--overwrite", is_flag=True, help="Replace an existing build.")
@click.option(
    "--from-decisions", metavar="PARQUET", help="Decisions table made elsewhere, instead of logs (docs/decisions.md)."
)
@click.option("--workers", type=click.IntRange(1), help="Worker processes  [default: one per core].")
@_input_options
@_build_options
@_output_options
def build_prefs(
    logs: tuple[str, ...], out: str, overwrite: bool, from_decisions: str | None, workers: int | None, **rest: Any
) -> None:
    """Make preference pairs."""
    from mcgpo_data.build.run import build_preferences

    config, options = _options(rest, overwrite=overwrite, workers=workers)
    if from_decisions is not None:
        from mcgpo_data.build.from_decisions import build_from_decisions

        if logs:
            raise UsageError("--from-decisions takes the place of LOGS; name one of them.")
        manifest = build_from_decisions(Path(from_decisions), Path(out), config, options)
    elif not logs:
        raise UsageError("no input. Name log files or folders: mcgpo-build-prefs LOGS... -o OUT")
    else:
        manifest = build_preferences(logs, out, config, options)
    _report(manifest, Path(out), as_json=rest["as_json"], quiet=rest["quiet"])


@cli.command()
@click.argument("logs", nargs=-1, required=True)
@click.option("--workers", type=click.IntRange(1), help="Worker processes  [default: one per core].")
@_input_options
@_build_options
@_output_options
def plan(logs: tuple[str, ...], workers: int | None, **rest: Any) -> None:
    """What a build of LOGS would give: counts, pairs, size. Writes nothing.

    \b
    Examples:
      mcgpo plan logs/
      mcgpo plan logs/ --folds 4 --scope task
      mcgpo plan logs/ --json
    """
    from mcgpo_data.build.plan import plan_build

    config, options = _options(rest, overwrite=False, workers=workers)
    found = plan_build(logs, config, options)
    if rest["as_json"]:
        _print_json(found)
        return
    _print_funnel(found["funnel"])
    click.echo(f"{found['bytes_full']:>12,}  bytes on disk, about, with text; {found['bytes_thin']:,} without")
    click.echo(f"{found['memory_bytes'] >> 20:>12,}  MiB of memory, about, with {found['workers']} worker(s)")


@cli.command()
@click.argument("logs", nargs=-1, required=True)
@click.option(
    "--max-bad-fraction", type=float, default=0.1, show_default=True, help="Share of unusable records allowed."
)
@click.option("--mapping", metavar="FILE|NAME", help="YAML that describes a home-made log layout.")
@click.option("--format", "format_name", metavar="NAME", help="Reader to use instead of detection.")
@_output_options
def validate(
    logs: tuple[str, ...],
    max_bad_fraction: float,
    mapping: str | None,
    format_name: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """What each file is, and what is wrong where. Writes nothing.

    \b
    Examples:
      mcgpo validate logs/
      mcgpo validate run.jsonl --format verl
      mcgpo validate logs/ --json
    """
    from mcgpo_data.inspect.validate import check_bad, validate_files, validation_lines

    found = validate_files(logs, format_name, _mapping(mapping))
    if as_json:
        _print_json(found)
    else:
        click.echo("\n".join(validation_lines(found)))
    check_bad(found, max_bad_fraction)


@cli.command()
@click.argument("out")
@click.argument("pair_id")
@_output_options
def explain(out: str, pair_id: str, as_json: bool, quiet: bool) -> None:
    """Why one pair of the build OUT is oriented and weighted as it is.

    \b
    Examples:
      mcgpo explain out 1f3a                any unique beginning of the id
      mcgpo explain out 1f3a --json
      mcgpo show out --limit 3              to find ids
    """
    from mcgpo_data.inspect.explain import explain_pair
    from mcgpo_data.store import open_store

    found = explain_pair(open_store(out), pair_id)
    if as_json:
        _print_json(found.to_dict())
    else:
        click.echo("\n".join(found.lines()))


@cli.command()
@click.argument("out")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Pairs to show.")
@click.option("--offset", type=click.IntRange(0), default=0, show_default=True, help="Pairs to skip.")
@click.option(
    "--sort", type=click.Choice(["order", "weight", "support", "delta"]), default="weight", show_default=True
)
@click.option("--rule", metavar="NAME", help="Only pairs of this rule.")
@click.option("--task", metavar="ID", help="Only pairs of tasks with this text in their id.")
@click.option("--action", metavar="TEXT", help="Only pairs with this text in one of the actions.")
@click.option("--funnel", is_flag=True, help="Only the funnel: where the data went.")
@click.option(
    "--explain", "explained", type=click.IntRange(0), default=0, metavar="N", help="Explain N of them in full."
)
@_output_options
def show(out: str, explained: int, funnel: bool, as_json: bool, quiet: bool, **filters: Any) -> None:
    """Pairs of the build OUT.

    \b
    Examples:
      mcgpo show out                         the 20 heaviest pairs
      mcgpo show out --rule exact --limit 50 --offset 50
      mcgpo show out --explain 5             five pairs with all their evidence
    """
    from mcgpo_data.inspect.explain import explain_pair
    from mcgpo_data.inspect.show import pair_lines, select_pairs
    from mcgpo_data.store import open_store

    store = open_store(out)
    if funnel and not as_json:
        _print_funnel(store.manifest["funnel"])
        return
    pairs = select_pairs(store, **filters)
    if as_json:
        _print_json({"funnel": store.manifest["funnel"], "pairs": pairs.to_dicts()})
        return
    if not quiet:
        found = store.manifest["funnel"]
        click.echo(f"{found['pairs']:,} pairs of rules {store.manifest['config']['rules']}; the funnel: --funnel\n")
    if explained:
        for pair_id in pairs["pair_id"].head(explained):
            click.echo("\n".join([*explain_pair(store, pair_id).lines(), ""]))
    else:
        click.echo("\n".join(pair_lines(pairs)))


@cli.command()
@click.argument("out")
@click.option(
    "--estimator",
    metavar="NAME",
    help="Write its advantages: grpo, drgrpo, rloo, gigpo, graphgpo, ecpo, hgpo, g2po, gagpo or crbc.",
)
@click.option("--compare", "compared", metavar="NAME,NAME...", help="Compare estimators instead. Writes nothing.")
@click.option(
    "--preset",
    metavar="NAME",
    help="Options of a published run: verl-agent:alfworld, verl-agent:webshop, verl-agent:sokoban.",
)
@click.option(
    "--option", "settings", multiple=True, metavar="NAME=VALUE", help="One option (docs/credit.md); may be repeated."
)
@click.option("--rule", default="0", show_default=True, metavar="NAME|INDEX", help="Whose states and actions.")
@click.option("--with-progress", is_flag=True, help="Equal states must have equal rubric progress too.")
@click.option("--rewards", default="outcome", show_default=True, metavar="outcome|logged", help="What steps earned.")
@click.option("--plot", metavar="SVG", help="With --compare: draw it, too. Needs matplotlib.")
@click.option("--overwrite", is_flag=True, help="Replace advantages of the same estimator.")
@click.option("--workers", type=click.IntRange(1), help="Worker processes  [default: one per core].")
@_output_options
def credit(
    out: str,
    estimator: str | None,
    compared: str | None,
    settings: tuple[str, ...],
    preset: str | None,
    plot: str | None,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
    **rest: Any,
) -> None:
    """Critic-free advantages of the steps of the build OUT.

    \b
    Examples:
      mcgpo credit out --estimator graphgpo                     writes out/advantages_graphgpo
      mcgpo credit out --estimator gigpo --preset verl-agent:alfworld --option gamma=0.9
      mcgpo credit out --compare grpo,gigpo,graphgpo,ecpo --plot credit.svg
    """
    from mcgpo_data.credit.options import options_from_texts
    from mcgpo_data.credit.store import CreditOptions, credit_build
    from mcgpo_data.inspect.credit_report import compare_build, compare_lines, credit_lines

    if (estimator is None) == (compared is None):
        raise UsageError("give --estimator NAME to write advantages, or --compare NAME,NAME... to compare.")
    if plot is not None and compared is None:
        raise UsageError("--plot draws a comparison; add --compare NAME,NAME... .")
    options = options_from_texts(settings)
    if not quiet and sys.stderr.isatty():
        rest["progress"] = _Progress()
    how = CreditOptions(**{name: value for name, value in rest.items() if value is not None})
    if estimator is not None:
        manifest = credit_build(out, estimator, preset=preset, options=options, how=how, overwrite=overwrite)
        entry = manifest["credit"]["estimators"][estimator]
        found = {"output": str(Path(out) / f"advantages_{estimator}"), "content_id": manifest["content_id"], **entry}
        lines = credit_lines(found, quiet=quiet)
    else:
        found = compare_build(out, str(compared).split(","), preset=preset, options=options, how=how)
        lines = compare_lines(found)
    if as_json:
        _print_json(found)
    else:
        click.echo("\n".join(lines))
    if plot is not None:
        from mcgpo_data.inspect.credit_plot import save_credit_plot

        save_credit_plot(found, Path(plot))


@cli.command()
@click.argument("out")
@click.option("-o", "--output", metavar="FILE", help="File to write  [default: OUT/report.html].")
@click.option("-q", "--quiet", is_flag=True, help="Do not print the name of the file.")
def report(out: str, output: str | None, quiet: bool) -> None:
    """One HTML page about the build OUT: funnel, evidence, checks, warnings, sampled pairs.

    \b
    Examples:
      mcgpo report out                        writes out/report.html
      mcgpo report out -o demo.html           one file to send around: it loads nothing and runs nothing
      mcgpo report out -q && open out/report.html
    """
    from mcgpo_data.inspect.report.write import write_report
    from mcgpo_data.store import open_store

    target = write_report(open_store(out), None if output is None else Path(output))
    if not quiet:
        click.echo(str(target))


@cli.command()
@click.argument("out")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0: any free one.")
def view(out: str, port: int) -> None:
    """Look through all pairs of the build OUT in the browser; only this machine can.

    \b
    Examples:
      mcgpo view out                          then open http://127.0.0.1:8765/
      mcgpo view out --port 0                 any free port; the address is printed
      mcgpo view out & firefox http://127.0.0.1:8765/
    """
    from mcgpo_data.inspect.view.server import Viewer
    from mcgpo_data.store import open_store

    with Viewer(open_store(out), port) as server:
        click.echo(f"{server.url}   Ctrl-C ends")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("", err=True)


@cli.command()
@click.argument("table", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON Schema.")
def schema(table: str | None, as_json: bool) -> None:
    """Columns of the tables that a build holds: all, or TABLE.

    \b
    Examples:
      mcgpo schema
      mcgpo schema preferences
      mcgpo schema preferences --json
    """
    from mcgpo_data.inspect.tables import table_lines, table_schemas

    if as_json:
        _print_json(table_schemas(table))
    else:
        click.echo("\n".join(table_lines(table)))


def _mapping(spec: str | None) -> Any:
    if spec is None:
        return None
    from mcgpo_data.readers.mapping import load_mapping

    return load_mapping(spec)


def _options(rest: dict[str, Any], *, overwrite: bool, workers: int | None) -> tuple[BuildConfig, Any]:
    from mcgpo_data.build.run import BuildOptions

    if not 0 <= rest["max_bad_fraction"] <= 1:
        raise UsageError(f"--max-bad-fraction is {rest['max_bad_fraction']}; it must be a number from 0 to 1.")
    config = build_config({f.name: rest[f.name] for f in fields(BuildConfig)}, rest["config_file"])
    quiet = rest["quiet"]
    extra: dict[str, Any] = {} if workers is None else {"workers": workers}
    if not quiet:
        extra["note"] = lambda text: click.echo(text, err=True)
        if sys.stderr.isatty():
            extra["progress"] = _Progress()
    options = BuildOptions(
        rules=rest["rules"],
        format_name=rest["format_name"],
        mapping=_mapping(rest["mapping"]),
        overwrite=overwrite,
        max_bad_fraction=rest["max_bad_fraction"],
        **extra,
    )
    return config, options


class _Progress:
    """One bar per stage on stderr."""

    def __init__(self) -> None:
        self.bar: Any = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        from tqdm import tqdm

        if done == 0:
            self.bar = tqdm(total=total, desc=stage, file=sys.stderr, leave=False)
        self.bar.update(done - self.bar.n)
        if done == total:
            self.bar.close()


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str, allow_nan=False))


def _print_funnel(funnel: dict[str, Any]) -> None:
    from mcgpo_data.build.funnel import Funnel

    found = Funnel(**funnel)
    click.echo("\n".join([*found.lines(), *(f"note: {text}" for text in found.advice)]))


def _report(manifest: dict[str, Any], out: Path, *, as_json: bool, quiet: bool) -> None:
    pairs = manifest["funnel"]["pairs"]
    if as_json:
        _print_json({"output": str(out), **{k: v for k, v in manifest.items() if k != "tables"}})
    else:
        if not quiet:
            _print_funnel(manifest["funnel"])
            if ignored := manifest.get("ignored_inputs"):
                first = ignored[0]
                click.echo(f"note: {len(ignored)} file(s) left out, such as {first['path']}: {first['why']}")
            click.echo(f"rules: {manifest['config']['rules']} ({', '.join(manifest['config']['rule_names'])})")
        click.echo(f"{pairs:,} pairs in {out / 'preferences'}")
        if pairs and not quiet:
            click.echo(f"next: mcgpo show {out} --explain 3", err=True)
    if not pairs:
        click.echo("no preference pair could be formed; the notes above say why.", err=True)
        raise SystemExit(4)


def run(command: click.Command, name: str) -> int:
    """Run a command and turn everything that can happen into an exit code and one message."""
    try:
        command.main(prog_name=name, standalone_mode=False)
        return 0
    except click.exceptions.Exit as error:
        return int(error.exit_code)
    except click.ClickException as error:
        error.show(sys.stderr)
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; nothing was written.", err=True)
        return 130
    except McgpoError as error:
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    except MemoryError:
        click.echo("error: out of memory. Use fewer --workers, or --form thin.", err=True)
        return 6
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1


def main() -> None:
    """Entry point of `mcgpo`."""
    sys.exit(run(cli, "mcgpo"))


def build_prefs_main() -> None:
    """Entry point of `mcgpo-build-prefs`."""
    sys.exit(run(build_prefs, "mcgpo-build-prefs"))
