"""What keeps shared state consistent under interrupts, forks, signal handlers and other threads?"""
