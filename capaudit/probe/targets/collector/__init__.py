"""The reference collector: a whole K=1 control step that may be captured, under the collector contract."""
