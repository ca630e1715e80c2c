"""``gpusim-des completion bash|zsh``: a script that completes commands, options and names of GPUs and experiments."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

BASH = """\
# gpusim-des: source this file, or put it into the folder of bash-completion.
_gpusim_des() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}"
    local words=""
    case "$before" in
        --gpu|--show) words="{gpus}" ;;
        --target) words="{targets}" ;;
{choices}
        {values}) COMPREPLY=(); return ;;
        experiment) words="{experiments}" ;;
        completion) words="bash zsh" ;;
    esac
    if [ -z "$words" ]; then
        if [ "$COMP_CWORD" -eq 1 ]; then
            words="{commands}"
        elif [[ "$word" != -* && "$command" =~ ^({files})$ ]]; then
            COMPREPLY=(); return  # names of files, which bash completes by itself
        else
            case "$command" in
{cases}
            esac
        fi
    fi
    COMPREPLY=( $(compgen -W "$words" -- "$word") )
}}
complete -o default -F _gpusim_des gpusim-des
"""

ZSH = "autoload -U +X bashcompinit && bashcompinit\n"
"""zsh reads scripts of bash after this."""


def add_completion(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands in a shell",
        description='bash: eval "$(gpusim-des completion bash)"; zsh the same with zsh; in the rc file of the shell.',
    )
    parser.add_argument("shell", choices=("bash", "zsh"))
    parser.set_defaults(run=run, parsers=commands.choices)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from gpusim_des.experiment import list_experiments  # noqa: PLC0415 - `gpusim-des --help` need not load NumPy
    from gpusim_des.gpu import list_gpus  # noqa: PLC0415
    from gpusim_des.silicon import list_targets  # noqa: PLC0415 - as above

    targets = tuple(target.name for target in list_targets())
    print(script(options.shell, options.parsers, list_gpus(), list_experiments(), targets), end="")
    return 0


def script(
    shell: str,
    parsers: Mapping[str, argparse.ArgumentParser],
    gpus: tuple[str, ...],
    experiments: tuple[str, ...],
    targets: tuple[str, ...],
) -> str:
    """Text of the script, made from the commands' own options."""
    cases, files = [], []
    choices: dict[str, str] = {}
    values: dict[str, None] = {}
    for name, parser in parsers.items():
        for action in parser._actions:
            for option in (o for o in action.option_strings if o not in ("--gpu", "--show", "--target")):
                if action.choices:
                    choices[option] = " ".join(map(str, action.choices))
                elif action.nargs != 0:
                    values[option] = None
            if not action.option_strings and not action.choices and name not in files and name != "experiment":
                files.append(name)
        options = " ".join(o for action in parser._actions for o in action.option_strings if o.startswith("--"))
        cases.append(f'                {name}) words="{options}" ;;')
    text = BASH.format(
        gpus=" ".join(gpus),
        targets=" ".join(targets),
        choices="\n".join(f'        {option}) words="{words}" ;;' for option, words in choices.items()),
        values="|".join(option for option in values if option not in choices),
        files="|".join(files),
        experiments=" ".join((*experiments, "all", "list")),
        commands=" ".join(parsers),
        cases="\n".join(cases),
    )
    return (ZSH if shell == "zsh" else "") + text
