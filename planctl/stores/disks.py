"""What there is to know of the file system that a database lies on. Standard library only; changes nothing."""

from __future__ import annotations

import os

# WAL needs memory that all processes share, which these do not give, or not between machines.
_NETWORK = (
    *('9p', 'afs', 'beegfs', 'ceph', 'cifs', 'drvfs', 'gfs2', 'gpfs', 'lustre', 'nfs', 'nfs4', 'ocfs2', 'prl_fs'),
    *('smb3', 'smbfs', 'vboxsf', 'virtiofs'),
    *('fuse.gcsfuse', 'fuse.glusterfs', 'fuse.rclone', 'fuse.s3fs', 'fuse.sshfs'),
)
_ROOM = 64 * 1024
"""What SQLite needs beside a database to read it, and to write a little. With less it leaves half a file behind."""


def on_network(folder: str, mounts: str = '/proc/self/mountinfo') -> bool:
    """Return whether the folder is on a file system of another machine, as far as Linux tells."""
    if folder.startswith('\\\\'):
        return True
    try:
        device = os.stat(folder).st_dev
        with open(mounts, encoding='utf-8', errors='replace') as lines:
            number = f'{os.major(device)}:{os.minor(device)}'
            for line in lines:
                mount, _, kind = line.partition(' - ')
                if mount.split(' ', 3)[2] == number:
                    return kind.split(' ', 1)[0] in _NETWORK
    except (OSError, AttributeError, IndexError):
        pass
    return False


def is_full(folder: str) -> bool:
    """Return whether the file system of the folder has no room for what SQLite puts beside a database."""
    statvfs = getattr(os, 'statvfs', None)
    if statvfs is None:
        return False
    try:
        found = statvfs(folder)
    except OSError:
        return False
    # What is kept back is kept for root. Some file systems do not count, and say that they have no blocks at all.
    free = found.f_bfree if os.geteuid() == 0 else found.f_bavail
    return found.f_blocks > 0 and free * (found.f_frsize or found.f_bsize) < _ROOM
