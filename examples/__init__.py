"""Programs that show Phalanx at work."""
