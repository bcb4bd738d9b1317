// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Child processes of the rig: tools run on the host or inside one of the
 * cached Debian roots, with their output in a log file and a ticker for the
 * long ones.
 */
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rig {

namespace fs = std::filesystem;

struct Bind {
    fs::path source;	/* on the host */
    fs::path target;	/* absolute, inside the root */
};

/* A root directory to run in.  The mounts live in a namespace of their own and
 * vanish with the process, however it ends. */
struct Jail {
    fs::path root;
    std::vector<Bind> binds;
};

struct Command {
    std::vector<std::string> argv;
    std::map<std::string, std::string> environment = {};
    fs::path directory = {};	/* inside the jail, if there is one */
    std::optional<Jail> jail = {};
};

/* Run and return the exit status (128 + signal number for a killed child); output goes to `log`. */
int RunStatus(const Command &command, const fs::path &log, bool append = false);

/* Run as a step of the rig: say what is going on, tick while it lasts, and on
 * failure show the end of the log and throw. */
void RunStep(const Command &command, std::string_view what, const fs::path &log);

/* Run, return stdout, throw on failure. */
std::string Capture(const Command &command);

/* As Capture(), but nullopt on failure. */
std::optional<std::string> TryCapture(const Command &command);

/* Fork and exec with the given descriptors as 0.. n-1 of the child (-1: /dev/null). In a new PID
 * namespace when asked, so that killing the returned process kills all it started. */
pid_t Spawn(const Command &command, const std::vector<int> &descriptors, bool own_pid_namespace);

/* Wait for a child; exit status as in RunStatus(). */
int Wait(pid_t pid);

std::string ReadFile(const fs::path &path);
void WriteFile(const fs::path &path, std::string_view text);
std::vector<std::string> SplitLines(std::string_view text);
std::string Trim(std::string_view text);
/* The last `count` lines of a file. */
std::string Tail(const fs::path &path, std::size_t count);

} // namespace rig
