// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The control socket's orders. */
#include "control.hpp"

#include "host_fixture.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cx::test {
namespace {

class FakeTransport final : public Transport {
public:
    void Start(Function & /* function */) override
    {
    }
    bool Disconnect() override
    {
        return std::exchange(connected, false);
    }
    std::string Status() const override
    {
        return R"({"transport":"fake"})";
    }
    GuestMemory &Memory() override
    {
        return memory;
    }
    void Interrupt(unsigned /* vector */) override
    {
    }

    GuestMemory memory;
    bool connected = true;
};

class FakeBackend final : public Backend {
public:
    void Start(Receiver /* receiver */) override
    {
    }
    void Send(std::span<const std::byte> /* frame */) override
    {
    }
    std::string Status() const override
    {
        return "not JSON";
    }
    bool SetRate(std::uint64_t frames_per_second) override
    {
        rate = frames_per_second;
        return rate != 0;
    }
    bool SetRunning(bool value) override
    {
        running = value;
        return true;
    }

    std::uint64_t rate = 1;
    bool running = false;
};

class ControlTest : public testing::Test {
protected:
    nlohmann::json Do(const std::string &line)
    {
        return nlohmann::json::parse(control_.Execute(line));
    }
    bool Ok(const std::string &line)
    {
        return Do(line) == nlohmann::json{{"ok", true}};
    }
    bool Error(const std::string &line)
    {
        const nlohmann::json answer = Do(line);

        return answer.size() == 1 && answer.contains("error") && answer["error"] != "";
    }

    const std::string path_ = testing::TempDir() + "control." + std::to_string(getpid());
    EventLoop loop_;
    RecordingFunction function_;
    FakeTransport transport_;
    FakeBackend backend_;
    Control control_{loop_, function_, transport_, backend_, path_};
};

TEST_F(ControlTest, Faults)
{
    using Faults = std::vector<std::pair<Fault, std::uint32_t>>;

    EXPECT_TRUE(Ok("fault command-timeout"));
    EXPECT_TRUE(Ok("fault cq-error"));
    EXPECT_TRUE(Ok("  fault\trq-error 0x12 \r"));
    EXPECT_TRUE(Ok("fault cq-error 7"));
    EXPECT_TRUE(Ok("fault lost-interrupt"));
    EXPECT_TRUE(Ok("fault link-down"));
    EXPECT_TRUE(Ok("fault link-up"));
    EXPECT_TRUE(Ok("fault health"));
    EXPECT_EQ(function_.faults, (Faults{{Fault::kCommandTimeout, 0},
                                        {Fault::kCqError, 0},
                                        {Fault::kRqError, 0x12},
                                        {Fault::kCqError, 7},
                                        {Fault::kLostInterrupt, 0},
                                        {Fault::kLinkDown, 0},
                                        {Fault::kLinkUp, 0},
                                        {Fault::kHealth, 0}}));
    function_.inject = false;
    EXPECT_TRUE(Error("fault cq-error 8"));
}

TEST_F(ControlTest, UnknownInputIsAnError)
{
    for (const char *line :
         {"", " ", "nonsense", "fault", "fault nonsense", "fault health 1", "fault cq-error x", "fault cq-error -1",
          "fault cq-error 4294967296", "fault cq-error 1 2", "fault cq-error 0x", "rate", "rate ten", "rate 1 2",
          "start now", "status all", "\xff\xfe", "{\"fault\": 1}", "rate 99999999999999999999"})
        EXPECT_TRUE(Error(line)) << line;
    EXPECT_TRUE(Error(std::string("status\0", 7)));
    EXPECT_TRUE(Error("fault cq-error \xff"));
    EXPECT_TRUE(function_.faults.empty());
}

TEST_F(ControlTest, TrafficAndRemoval)
{
    EXPECT_TRUE(Ok("rate 5000"));
    EXPECT_EQ(backend_.rate, 5000U);
    EXPECT_TRUE(Error("rate 0"));
    EXPECT_TRUE(Ok("start"));
    EXPECT_TRUE(backend_.running);
    EXPECT_TRUE(Ok("stop"));
    EXPECT_FALSE(backend_.running);
    EXPECT_TRUE(Ok("remove"));
    EXPECT_TRUE(Error("remove"));
}

TEST_F(ControlTest, Status)
{
    const nlohmann::json status = Do("status");

    EXPECT_EQ(status["card"]["resets"], 0);
    EXPECT_EQ(status["transport"]["transport"], "fake");
    EXPECT_EQ(status["backend"], "not JSON");
    EXPECT_TRUE(Do("help")["help"].is_string());
}

TEST_F(ControlTest, LinesOfSeveralClients)
{
    const FileDescriptor first = ConnectUnix(path_, SOCK_STREAM);
    const FileDescriptor second = ConnectUnix(path_, SOCK_STREAM);
    const auto ask = [&](const FileDescriptor &client, const std::string &text) {
        std::array<char, 65536> bytes = {};

        EXPECT_TRUE(SendWith(client.Get(), ToBytes(text), {}));
        RunAll(loop_);
        const ssize_t size = recv(client.Get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        return std::string(bytes.data(), size < 0 ? 0 : static_cast<std::size_t>(size));
    };

    ASSERT_TRUE(first);
    RunAll(loop_);
    ASSERT_TRUE(second);
    EXPECT_EQ(ask(first, "sta"), "");
    EXPECT_EQ(ask(second, "stop\nstart\n"), "{\"ok\":true}\n{\"ok\":true}\n");
    EXPECT_EQ(ask(first, "rt\n"), "{\"ok\":true}\n");
    EXPECT_NE(ask(first, std::string(1500, 'x')).find("error"), std::string::npos); /* too long, and the end */
    std::array<char, 1> byte = {};
    EXPECT_EQ(recv(first.Get(), byte.data(), 1, MSG_DONTWAIT), 0);
    EXPECT_EQ(ask(second, "stop\n"), "{\"ok\":true}\n");
}

TEST_F(ControlTest, QuitStopsTheLoop)
{
    loop_.After(Clock::duration::zero(), [this] { EXPECT_TRUE(Ok("quit")); });
    loop_.Run();
}

} // namespace
} // namespace cx::test
