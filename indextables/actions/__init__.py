"""What a transaction can say, how it is spelt, and what a sequence of transactions amounts to."""

from indextables.actions.model import Action, Add, CommitInfo, FileFormat, Metadata, Protocol, Remove, Skip, Txn

__all__ = ["Action", "Add", "CommitInfo", "FileFormat", "Metadata", "Protocol", "Remove", "Skip", "Txn"]
