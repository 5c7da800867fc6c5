"""What a run that can be taken up again records, stores and replays; the loop that does it is `Resumable`."""
