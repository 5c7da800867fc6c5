"""Why a trial was lost: its course, where it parts from another, and the cause."""
