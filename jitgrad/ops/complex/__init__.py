"""What operations mean for complex numbers."""
