"""The gate's result for people and CI servers: on one screen, whole as text or Markdown, as JUnit, and for GitHub Actions."""
