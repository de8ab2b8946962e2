/* Loaded into the node before its C library: a disk that fails on demand.
 *
 * A file in the directory LEVERET_FAULTS switches the fault of its name on, for files and directories
 * whose path contains the text in it:
 *   slow-sync   a sync takes 100 ms
 *   sync-fails  a sync fails with EIO
 *   no-space    of a write half gets in, then it fails with ENOSPC
 *   read-fails  a read fails with EIO
 *   slow-read   a read takes 100 ms, unless it is one that never waits
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int is_on(const char *fault, int fd)
{
	char path[PATH_MAX], where[256], name[PATH_MAX];
	const char *faults = getenv("LEVERET_FAULTS");
	if (faults == NULL)
		return 0;
	snprintf(path, sizeof path, "%s/%s", faults, fault);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return 0;
	ssize_t n = read(file, where, sizeof where - 1);
	close(file);
	if (n <= 0)
		return 0;
	where[n] = 0;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof name - 1);
	if (n < 0)
		return 0;
	name[n] = 0;
	return strstr(name, where) != NULL;
}

static void be_slow(const char *fault, int fd)
{
	if (is_on(fault, fd)) {
		struct timespec wait = { 0, 100 * 1000 * 1000 };
		nanosleep(&wait, NULL);
	}
}

static int faulty_sync(long call, int fd)
{
	be_slow("slow-sync", fd);
	if (is_on("sync-fails", fd)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(call, fd);
}

int fdatasync(int fd)
{
	return faulty_sync(SYS_fdatasync, fd);
}

int fsync(int fd)
{
	return faulty_sync(SYS_fsync, fd);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
	if (n > 0 && is_on("no-space", fd)) {
		if (n == 1) {
			errno = ENOSPC;
			return -1;
		}
		n /= 2;
	}
	return syscall(SYS_pwrite64, fd, bytes, n, at);
}

ssize_t pread64(int fd, void *bytes, size_t n, off64_t at)
{
	be_slow("slow-read", fd);
	if (is_on("read-fails", fd)) {
		errno = EIO;
		return -1;
	}
	return syscall(SYS_pread64, fd, bytes, n, at);
}
