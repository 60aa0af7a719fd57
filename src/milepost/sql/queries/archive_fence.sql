-- What the archiver has read, but not yet added to the manifest, is refused. It begins again.
update {schema}.checkpoints set epoch = epoch + 1 where processor = %(processor)s
