"""What keeps shared state right when interrupts, forks, signal handlers and other threads come in between?"""
