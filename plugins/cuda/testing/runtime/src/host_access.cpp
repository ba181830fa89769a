#include "host_access.hpp"

#include <signal.h>  // sigaction
#include <unistd.h>  // write

#include <cerrno>       // errno
#include <string>       // sentences
#include <string_view>  // labels
#include <utility>      // exchange

#include "state.hpp"

// The thread sanitizer reports calls of malloc in any handler, also where, as here, the signal
// comes from an instruction of the program. It asks for this; a program may define its own.
extern "C" [[gnu::weak]] __attribute__((no_sanitize("thread"))) const char*
__tsan_default_options();  // it is called before the sanitizer's start
extern "C" [[gnu::weak]] const char* __tsan_default_options() { return "report_signal_unsafe=0"; }

namespace gx::cuda_testing {

namespace {

struct sigaction former_handler{};  // the handler that was there

/// To the handler that was there before. Without one, or where that one comes back here, the access
/// is repeated, and ends the process.
void give_on(int signal, siginfo_t* info, void* context) {
    thread_local bool is_given = false;
    const bool is_function =
        former_handler.sa_handler != SIG_DFL && former_handler.sa_handler != SIG_IGN;
    if (!is_function || std::exchange(is_given, true)) {
        ::signal(SIGSEGV, SIG_DFL);
        return;
    }
    if ((former_handler.sa_flags & SA_SIGINFO) != 0)
        former_handler.sa_sigaction(signal, info, context);
    else former_handler.sa_handler(signal);
    is_given = false;
}

// The fault is of the thread that runs this, at an instruction of the program: not inside of
// malloc, nor of the double unless an operation runs, so locks and strings are safe.
void on_fault(int signal, siginfo_t* info, void* context) {
    const int error = errno;  // of the program
    const auto r = the_runtime();
    const std::lock_guard lock(r->mutex);
    const std::string flaw = r->host_touches(info->si_addr);
    if (flaw.empty() && r->memory.find(info->si_addr) != nullptr) {
        errno = error;
        return;  // the access is repeated, and succeeds
    }
    if (!flaw.empty()) {
        const std::string text = "gx: " + flaw + "\n";
        [[maybe_unused]] const auto written = ::write(2, text.data(), text.size());
    }
    give_on(signal, info, context);
}

}  // namespace

void name_host_accesses() {
    struct sigaction now{};
    ::sigaction(SIGSEGV, nullptr, &now);
    if (now.sa_sigaction == &on_fault) return;
    former_handler = now;
    struct sigaction action{};
    action.sa_sigaction = &on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | (former_handler.sa_flags & SA_ONSTACK);
    ::sigaction(SIGSEGV, &action, nullptr);
}

std::string Runtime::host_touches(const void* address) {
    Allocation* const a = memory.find(address);
    if (a == nullptr) return "";
    const std::string who = running != nullptr
                                ? "'" + running->name + "' (" + running_on->name + ")"
                                : std::string("the host");
    const std::string where = Memory::byte_of(*a, address);
    const auto* const byte = static_cast<const std::byte*>(address);
    if (a->state == Allocation::State::freed)
        return who + " touches " + where + ", which " + a->freed_by + " freed.";
    if (byte < a->begin || byte >= a->begin + a->bytes)
        return who + " touches " + where + ": beyond its bounds.";
    if (a->kind == Allocation::Kind::device) {
        const bool works = running != nullptr && running->kind != Operation::Kind::host_function;
        if (works && may_access(running_on->device, *a) && a->state == Allocation::State::live &&
            !a->is_open) {
            open(*a, {a->begin, a->bytes, true});
            return "";
        }
        if (works && a->state == Allocation::State::promised)
            return who + " touches " + where + ", whose cudaMallocAsync has not run.";
        if (works)
            return who + " touches " + where + " from device " +
                   std::to_string(running_on->device) + ". Copy it to this device first.";
        return who + " touches " + where + ". Launch a kernel on it, or copy it to the host first.";
    }
    if (a->access.empty()) return "";
    auto& page = a->access[static_cast<std::size_t>(byte - a->pages) / 4096];
    if (page == Allocation::Page::open) return "";
    // A closed page was read, or will be written by the same instruction: then this comes again.
    const bool writes = page == Allocation::Page::readable;
    const bool checks = !stopped;
    if (checks && running == nullptr)
        for (const CUstream_st& s : streams)
            for (const Operation& op : s.queue)
                for (const Use& use : op.uses)
                    if ((writes || use.writes) && byte >= use.begin && byte < use.begin + use.bytes)
                        return who + (writes ? " writes " : " uses ") + where + " while '" +
                               op.name + "' (" + s.name + "), which " +
                               (use.writes ? "writes" : "reads") +
                               " it, is queued. Wait for the stream or an event behind it first.";
    if (checks) {
        try {
            races.note(running != nullptr ? running_on->actor : host,
                       writes ? Access::write : Access::read, {byte, 1},
                       {running != nullptr ? Label(std::string_view(running->name).substr(0, 63))
                                           : Label("use by the host")});
        } catch (const testing::Race& e) {
            return race_text(e.what());
        }
    }
    if (running != nullptr) opened_pinned_.push_back({byte, 1, true});  // until close_memory()
    const auto access = writes ? Allocation::Page::open : Allocation::Page::readable;
    return Memory::set_pages(*a, address, 1, access) ? "" : refused_access(*a);
}

}  // namespace gx::cuda_testing
