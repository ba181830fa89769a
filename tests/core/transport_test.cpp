#include <gx/core/transport.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

using gx::archetype::Transport;

// ---- What the types promise ---------------------------------------------------------
static_assert(gx::Transport<Transport>);
static_assert(gx::explain_transport<Transport>());
static_assert(!gx::Transport<int>);

struct NoPlacement : Transport {
    void placement() const;
};
static_assert(!gx::Transport<NoPlacement>);
struct SendReturnsNothing : Transport {
    void send(int, int, std::span<const std::byte>);
};
static_assert(!gx::Transport<SendReturnsNothing>);
struct ReceivesConst : Transport {
    gx::Request receive(int, int, std::span<const std::byte>) = delete;
    gx::Request receive(int, std::span<std::byte>);
};
static_assert(!gx::Transport<ReceivesConst>, "a receive names its channel");
struct WaitThrows : Transport {
    void wait(gx::Request);
};
static_assert(!gx::Transport<WaitThrows>, "a deadline is an answer");
struct WaitAnyOnlyIndex : Transport {
    std::size_t wait_any(std::span<const gx::Request>);
};
static_assert(!gx::Transport<WaitAnyOnlyIndex>);

static_assert(gx::Placement{.machines = 4, .ranks_per_machine = 8}.ranks() == 32);
static_assert(gx::Placement{}.ranks() == 1);
static_assert(gx::Placement{2, 4} != gx::Placement{4, 2}, "as many ranks, other machines");
static_assert(gx::Placement{2, 4}.node_of(6) == 1 && gx::Placement{2, 4}.local_rank(6) == 2);

// Three ranks on a machine, one on another, and not one machine after the other.
constexpr int nodes[] = {0, 1, 0, 0}, local_ranks[] = {0, 0, 1, 2};
constexpr gx::NodeMap map{.node = nodes, .local_rank = local_ranks};
constexpr gx::Placement ragged{2, 0, &map};
static_assert(!ragged.regular() && gx::Placement{4, 1}.regular());
static_assert(ragged.ranks() == 4 && ragged.node_of(1) == 1 && ragged.node_of(3) == 0);
static_assert(ragged.local_rank(1) == 0 && ragged.local_rank(3) == 2);
static_assert(ragged == ragged && ragged != gx::Placement{4, 1});

// ---- Generic code on a transport that sends to itself -----------------------------------
struct Loopback {
    int rank() const { return 0; }
    int ranks() const { return 1; }
    gx::Placement placement() const { return {}; }
    gx::Request send(int, int, std::span<const std::byte> m) {
        out = m;
        return {1};
    }
    gx::Request receive(int, int, std::span<std::byte> m) {
        in = m;
        return {2};
    }
    gx::Delivery wait(gx::Request r) {
        if (r.id == 2 && out.size() != in.size())
            return {.outcome = gx::Delivery::Outcome::timed_out, .peer = 0};
        if (r.id == 2)
            for (std::size_t i = 0; i < in.size(); ++i) in[i] = out[i];
        return {};
    }
    gx::Arrival wait_any(std::span<const gx::Request> r) { return {0, wait(r[0])}; }
    std::span<const std::byte> out{};
    std::span<std::byte> in{};
};

gx::Delivery echo(gx::Transport auto& link, std::span<const std::byte> out,
                  std::span<std::byte> in) {
    const gx::Request got = link.receive(0, 0, in);
    const gx::Delivery sent = link.wait(link.send(0, 0, out));
    return sent.complete() ? link.wait(got) : sent;
}

struct Follows : Loopback {
    void working_on(const gx::Operation& now) { operation = now; }
    gx::Operation operation{};
};
TEST(Transport, FollowsTheOperationInProgressIfItCan) {
    Follows link;
    gx::working_on(link, {"all-reduce", 7, 3});
    EXPECT_EQ(link.operation, (gx::Operation{"all-reduce", 7, 3}));
    Loopback other;
    gx::working_on(other, {"all-reduce", 7, 3});  // nothing to follow it
}

struct FollowsParts : Loopback {
    void working_on(const gx::Operation& operation) { all.push_back(operation); }
    [[nodiscard]] const gx::Operation& operation() const { return all.back(); }
    [[nodiscard]] int queue() { return 5; }
    std::vector<gx::Operation> all{1};
};
template <class T>
concept HasOperation = requires(const T& t) { t.operation(); };
template <class T>
concept HasQueue = requires(T& t) { t.queue(); };
static_assert(HasOperation<gx::TransportOver<FollowsParts>> &&
              HasQueue<gx::TransportOver<FollowsParts>>);
static_assert(!HasOperation<gx::TransportOver<Follows>> && !HasQueue<gx::TransportOver<Follows>>);
static_assert(gx::Transport<gx::TransportOver<gx::TransportOver<Loopback>>>);

TEST(Transport, APartIsOneOfTheOperationInProgress) {
    FollowsParts link;
    gx::TransportOver over(link);
    gx::TransportOver twice(over);
    gx::working_on(twice, {"all-reduce", 7, 3});
    gx::working_on_part(twice, "MEMCPY_IN_FUSION_BUFFER");
    gx::working_on_part(twice, "");
    gx::working_on_part(twice, "MEMCPY_OUT_FUSION_BUFFER");
    gx::working_on(twice, {"all-reduce", 7, 4});
    const gx::Operation plain{"all-reduce", 7, 3};
    EXPECT_EQ(link.all,
              (std::vector<gx::Operation>{{},
                                          plain,
                                          {"all-reduce", 7, 3, "MEMCPY_IN_FUSION_BUFFER"},
                                          plain,
                                          {"all-reduce", 7, 3, "MEMCPY_OUT_FUSION_BUFFER"},
                                          {"all-reduce", 7, 4}}));
    EXPECT_EQ(twice.queue(), 5);

    Follows whole;  // it does not follow parts
    gx::working_on(whole, plain);
    gx::working_on_part(whole, "MEMCPY_IN_FUSION_BUFFER");
    EXPECT_EQ(whole.operation, plain);
}

TEST(Transport, GenericCodeNeedsTheConceptOnly) {
    Loopback link;
    const std::byte out[2] = {std::byte{1}, std::byte{2}};
    std::byte in[2] = {};
    EXPECT_TRUE(echo(link, out, in).complete());
    EXPECT_EQ(in[1], std::byte{2});
    EXPECT_FALSE(echo(link, std::span(out).first(1), in).complete()) << "nobody sent two bytes";
}

}  // namespace
