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
static int alive_fd = -1; /* to the guardian */
static int done_fd;       /* and back */
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

static pid_t start_server(void)
{
    char data[300];
    snprintf(data, sizeof data, "%s/data", dir.path);
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
                     "-c",
                     "dynamic_shared_memory_type=mmap",
                     NULL};
    return start("postgres", serve);
}

static void end_server(pid_t *server)
{
    if (*server == 0) return;
    kill(*server, SIGQUIT);
    (void)!end_of(*server);
    *server = 0;
}

/* Does what it is told by single letters; the end of the test is the end of them. */
static void run_guardian(int told_fd, int answer_fd)
{
    char data[300], told;
    signal(SIGINT, SIG_IGN);
    snprintf(data, sizeof data, "%s/data", dir.path);
    char *make[] = {"initdb", "-D", data,   "-U",          "postgres",  "-A",
                    "trust",  "-E", "UTF8", "--no-locale", "--no-sync", NULL};
    must(end_of(start("initdb", make)) == 0);
    pid_t server = start_server();
    while (read(told_fd, &told, 1) == 1) {
        if (told == 'q') end_server(&server);
        if (told == 's') server = start_server();
        must(write(answer_fd, &told, 1) == 1);
    }
    end_server(&server);
    scratch_dir_release(&dir);
    _exit(0);
}

static void tell(char what)
{
    must(write(alive_fd, &what, 1) == 1);
    must(read(done_fd, &what, 1) == 1);
}

void cluster_stop(void)
{
    tell('q');
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

void cluster_start(void)
{
    tell('s');
    wait_until_it_answers();
}

const char *cluster_dsn(void)
{
    int tells[2], dones[2];
    if (alive_fd >= 0) return dsn;
    find_programs();
    make_dir();
    snprintf(dsn, sizeof dsn, "host=%s user=postgres dbname=postgres", dir.path);
    must(pipe2(tells, O_CLOEXEC) == 0);
    must(pipe2(dones, O_CLOEXEC) == 0);
    fflush(NULL);
    guardian = fork();
    must(guardian >= 0);
    if (guardian == 0) {
        close(tells[1]);
        close(dones[0]);
        run_guardian(tells[0], dones[1]);
    }
    close(tells[0]);
    close(dones[1]);
    alive_fd = tells[1];
    done_fd = dones[0];
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
