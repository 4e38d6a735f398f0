"""The verbs, one a module, independent of the engine that runs them. A verb that maintains is a pure plan and a thin run."""
