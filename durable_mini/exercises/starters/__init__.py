"""The classes that learners begin with: they hold the flaw, or raise NotImplementedError."""
