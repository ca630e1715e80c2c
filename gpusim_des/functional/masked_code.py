"""Vectorize: a thread kernel's source becomes masked execution of many threads at once.

``if`` and ``else`` run one after the other under masks, loops run until no lane is active, ``break``, ``continue`` and
``return`` take lanes out; lanes come back together at the end of the statement (structured reconvergence).
"""

from __future__ import annotations

import ast

from gpusim_des.functional.kernel_source import Compiled, NotVectorizable, Source, build
from gpusim_des.functional.rewrite import Rewriter
from gpusim_des.functional.rewritten import constant, runtime, thunk


def compile_masked(source: Source, *, count_lines: bool) -> Compiled:
    """Compile a function for masked execution; raises `NotVectorizable`."""
    rewriter = MaskedRewriter(source, count_lines=count_lines)
    return build(source, rewriter.function(), rewriter.sites)


class MaskedRewriter(Rewriter):
    """Rewrites statements for masked execution."""

    def function(self) -> ast.FunctionDef:
        """Return the rewritten function: the runtime is its first parameter."""
        node = self.source.node
        if node.args.vararg or node.args.kwarg or node.args.kwonlyargs or node.args.posonlyargs:
            raise self.refuse(node, "a parameter list with * or **")
        body = [*self.prologue(), *self.body(node.body)]
        body.append(ast.Return(runtime("result")))
        return self.definition(node, body)

    # Expressions ----------------------------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A call."""
        return self.call(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """``and`` and ``or``: each operand only for the lanes that need it."""
        name = "and" if isinstance(node.op, ast.And) else "or"
        operands: list[ast.expr] = [thunk(self.truth(v)) for v in node.values]
        return runtime("logic", self.place(node), constant(name), *operands)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """``a if condition else b``: each side only for its lanes, then a select."""
        name, condition = self.place(node), self.truth(node.test)
        sides = [thunk(self.side(name, node.body)), thunk(self.side(name, node.orelse))]
        return runtime("select", self.place(node), condition, *sides)

    # Statements -----------------------------------------------------------------------------------------------------

    def visit_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        """A call for its effect, a barrier, or a documentation string."""
        self.check_statement(node)
        if isinstance(node.value, ast.Constant):
            return []
        if self.is_breakpoint(node.value):
            stop = runtime("stop", self.place(node))
            return [ast.Expr(stop)]
        if isinstance(node.value, ast.Yield):
            value = node.value.value
            token = self.expression(value) if value is not None else constant(None)
            return [ast.Expr(runtime("pause", self.place(node), token))]
        return [ast.Expr(self.expression(node.value))]

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        """Both sides, each under its mask."""
        test = self.expression(node.test)
        done: list[ast.stmt] = [ast.If(runtime("enter_if", self.place(node), test), self.body(node.body), [])]
        if node.orelse:
            done.append(ast.If(runtime("enter_else"), self.body(node.orelse), []))
        done.append(ast.Expr(runtime("leave_if")))
        return done

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        """Until no lane is active."""
        if node.orelse:
            raise self.refuse(node, "while … else")
        place = self.place(node)
        head: ast.expr = runtime("loop_head")
        line = [runtime("line", self.place(node))] if self.count_lines else []
        test = self.expression(node.test)
        tested = runtime("loop_test", self.place(node), test)
        condition = ast.BoolOp(ast.And(), [head, *line, tested])
        return [
            ast.Expr(runtime("loop_enter", place)),
            ast.While(condition, self.body(node.body), []),
            ast.Expr(runtime("loop_leave")),
        ]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        """Until no lane is active; the runtime's iterator keeps the masks."""
        if node.orelse:
            raise self.refuse(node, "for … else")
        iterable = self.range_loop(node)
        kept = self.temporary()
        head = self.loop_head(node, kept)
        return [ast.For(ast.Name(kept, ast.Store()), iterable, [*head, *self.body(node.body)], [])]

    def visit_Break(self, _: ast.Break) -> list[ast.stmt]:
        """Lanes leave the loop."""
        return [ast.Expr(runtime("do_break"))]

    def visit_Continue(self, _: ast.Continue) -> list[ast.stmt]:
        """Lanes wait for the next iteration."""
        return [ast.Expr(runtime("do_continue"))]

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        """Lanes leave the function."""
        value = constant(None) if node.value is None else self.expression(node.value)
        return [ast.Expr(runtime("do_return", self.place(node), value))]

    def visit_Pass(self, node: ast.Pass) -> list[ast.stmt]:
        """Nothing."""
        return [node]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Names, constants, attributes, tuples and lists pass; everything else is refused."""
        if isinstance(node, _PLAIN):
            return super().generic_visit(node)
        raise self.refuse(node, _NAMES.get(type(node), f"a {type(node).__name__} construct"))


_PLAIN = (ast.Name, ast.Constant, ast.Attribute, ast.Tuple, ast.List, ast.expr_context, ast.operator, ast.keyword)

_NAMES: dict[type[ast.AST], str] = {
    ast.Try: "try … except",
    ast.With: "a with statement",
    ast.Raise: "raise",
    ast.Assert: "assert",
    ast.FunctionDef: "a function inside of a kernel",
    ast.Lambda: "a lambda",
    ast.ListComp: "a list comprehension",
    ast.GeneratorExp: "a generator expression",
    ast.DictComp: "a dict comprehension",
    ast.SetComp: "a set comprehension",
    ast.Dict: "a dictionary",
    ast.Set: "a set",
    ast.Import: "an import",
    ast.ImportFrom: "an import",
    ast.NamedExpr: "an assignment expression",
    ast.Yield: "a yield inside of an expression",
    ast.Match: "a match statement",
    ast.Delete: "del",
}

__all__ = ["NotVectorizable", "compile_masked"]
