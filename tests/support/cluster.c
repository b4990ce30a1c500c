/* cluster.c -- see the header.
 *
 * A guardian process stands between the test and the database: it reads from a pipe that the test
 * holds open, so it learns of any end of the test, then ends the database and removes the files. */
#include "support/cluster.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/scratch_dir.h"

#define VERSIONS "/usr/lib/postgresql"

static struct scratch_dir dir;
static char bin[300];
static char dsn[400];
static int alive_fd = -1; /* the guardian's other end */
static pid_t guardian;

/* The newest that is installed. */
static void find_programs(void)
{
    DIR *versions = opendir(VERSIONS);
    int newest = 0;
    must(versions != NULL);
    for (struct dirent *entry; (entry = readdir(versions));)
        if (atoi(entry->d_name) > newest) newest = atoi(entry->d_name);
    closedir(versions);
    must(newest >= 15);
    snprintf(bin, sizeof bin, VERSIONS "/%d/bin", newest);
}

static void make_dir(void)
{
    snprintf(dir.path, sizeof dir.path, "%s/tally-pg-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    must(mkdtemp(dir.path) != NULL);
}

/* PostgreSQL refuses to run as root. */
static void become_owner(void)
{
    if (getuid() != 0) return;
    const struct passwd *owner = getpwnam("postgres");
    must(owner != NULL);
    must(chown(dir.path, owner->pw_uid, owner->pw_gid) == 0);
    must(setgroups(0, NULL) == 0);
    must(setgid(owner->pw_gid) == 0);
    must(setuid(owner->pw_uid) == 0);
}

static pid_t start(const char *program, char *const arguments[])
{
    char path[400], log[300];
    pid_t pid = fork();
    must(pid >= 0);
    if (pid > 0) return pid;
    become_owner();
    snprintf(path, sizeof path, "%s/%s", bin, program);
    snprintf(log, sizeof log, "%s/log", dir.path);
    int out = open(log, O_CREAT | O_WRONLY | O_APPEND, 0600);
    dup2(out, 1);
    dup2(out, 2);
    setenv("LC_ALL", "C", 1);
    if (chdir(dir.path) == 0) execv(path, arguments);
    _exit(127);
}

static int end_of(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) != pid)
        ;
    return status;
}

static void run_guardian(int told_fd)
{
    char data[300], byte;
    signal(SIGINT, SIG_IGN);
    snprintf(data, sizeof data, "%s/data", dir.path);
    char *make[] = {"initdb", "-D", data,   "-U",          "postgres",  "-A",
                    "trust",  "-E", "UTF8", "--no-locale", "--no-sync", NULL};
    must(end_of(start("initdb", make)) == 0);
    char *serve[] = {"postgres",
                     "-D",
                     data,
                     "-k",
                     dir.path,
                     "-c",
                     "listen_addresses=",
                     "-c",
                     "shared_buffers=32MB",
                     "-c",
                     "max_connections=60",
                     "-c",
                     "autovacuum=off",
                     NULL};
    pid_t server = start("postgres", serve);
    while (read(told_fd, &byte, 1) < 0)
        ;
    kill(server, SIGQUIT);
    (void)!end_of(server);
    scratch_dir_release(&dir);
    _exit(0);
}

static void stop(void)
{
    close(alive_fd);
    (void)!end_of(guardian);
}

static void wait_until_it_answers(void)
{
    for (unsigned tries = 0; PQping(dsn) != PQPING_OK; tries++) {
        must(tries < 3000);
        usleep(10000);
    }
}

const char *cluster_dsn(void)
{
    int ends[2];
    if (alive_fd >= 0) return dsn;
    find_programs();
    make_dir();
    snprintf(dsn, sizeof dsn, "host=%s user=postgres dbname=postgres", dir.path);
    must(pipe2(ends, O_CLOEXEC) == 0);
    fflush(NULL);
    guardian = fork();
    must(guardian >= 0);
    if (guardian == 0) {
        close(ends[1]);
        run_guardian(ends[0]);
    }
    close(ends[0]);
    alive_fd = ends[1];
    atexit(stop);
    wait_until_it_answers();
    return dsn;
}

void cluster_run(const char *sql)
{
    PGconn *pg = PQconnectdb(cluster_dsn());
    PGresult *result = PQexec(pg, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        fprintf(stderr, "%s: %s\n", sql, PQerrorMessage(pg));
    must(PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK);
    PQclear(result);
    PQfinish(pg);
}

void cluster_kill_backend(int backend)
{
    char sql[100];
    snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%d, 10000)", backend);
    cluster_run(sql);
}
