// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// See system.hpp.
#include "common/system.hpp"

#include "common/ktap.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

extern char **environ;

namespace rocev2::test {

std::string run_command(const std::vector<std::string> &argv)
{
    int pipe_fd[2];
    if (pipe2(pipe_fd, O_CLOEXEC))
        fail("pipe2: {}", std::strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fd[1], 1);
    posix_spawn_file_actions_adddup2(&actions, pipe_fd[1], 2);
    std::vector<char *> raw;
    std::string line;
    for (const std::string &word : argv) {
        raw.push_back(const_cast<char *>(word.c_str()));
        line += (line.empty() ? "" : " ") + word;
    }
    raw.push_back(nullptr);
    pid_t pid = 0;
    const int error = posix_spawnp(&pid, raw[0], &actions, nullptr, raw.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fd[1]);
    if (error) {
        close(pipe_fd[0]);
        fail("cannot run `{}`: {}", line, std::strerror(error));
    }
    std::string output;
    char chunk[4096];
    for (;;) {
        const ssize_t n = read(pipe_fd[0], chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        output.append(chunk, static_cast<size_t>(n));
    }
    close(pipe_fd[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "`{}` failed: {}", line, output);
    return output;
}

std::string run_ip(const std::string &netns, std::vector<std::string> arguments)
{
    std::vector<std::string> argv{"ip"};
    if (!netns.empty()) {
        argv.push_back("-n");
        argv.push_back(netns);
    }
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return run_command(argv);
}

std::map<std::string, long> resource_counts(const std::string &device)
{
    // One line: "0: rocev2_0: pd 1 cq 1 qp 1 cm_id 0 mr 0 ctx 0 srq 0"
    const std::string text = run_command({"rdma", "resource", "show", device});
    std::map<std::string, long> counts;
    std::vector<std::string> words;
    std::string word;
    for (const char c : text + " ") {
        if (!std::isspace(static_cast<unsigned char>(c))) {
            word += c;
        } else if (!word.empty()) {
            words.push_back(std::exchange(word, {}));
        }
    }
    for (size_t i = 2; i + 1 < words.size(); i += 2)
        counts[words[i]] = std::strtol(words[i + 1].c_str(), nullptr, 10);
    require(counts.count("qp") && counts.count("mr"),
            "cannot read `rdma resource show {}`: {}", device, text);
    return counts;
}

int registered_block_shift(const std::string &device, uint32_t lkey)
{
    const std::string text = run_command({"rdma", "-dd", "resource", "show", "mr"});
    const std::string object = "dev " + device + " ";
    const std::string key = fmt::format("lkey {:#x} ", lkey);
    const std::string field = "drv_block_shift ";
    // The details of an object can stand on lines of their own.
    for (size_t at = text.find(object); at != std::string::npos; at = text.find(object, at + 1)) {
        const std::string one = text.substr(at, text.find("\ndev ", at) - at);
        const size_t value = one.find(field);
        if (one.find(key) != std::string::npos && value != std::string::npos)
            return std::stoi(one.substr(value + field.size()));
    }
    fail("`rdma -dd resource show mr` has no block_shift for lkey {:#x} of {}: {}", lkey, device,
         text);
}

} // namespace rocev2::test
