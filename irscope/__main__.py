"""`python -m irscope`, where the command `irscope` is not installed."""

from irscope.cli import main

raise SystemExit(main())
