"""Objects that a program hands over and that no import can find again, such as a loop defined inside a function.

`loopbench.api` puts them here under a name, so that the rest of loopbench can look them up like any other
`package.module:Name`. They live as long as this process; worker processes and later resumes cannot find them.
"""
