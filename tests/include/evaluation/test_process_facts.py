import pytest

from include.evaluation.process_facts import describe_cpu, peak_rss_bytes, runtime_description


def test_vnni_is_found_in_both_spellings():
    assert "vnni=yes" in describe_cpu("model name : A\nflags : fpu avx512f avx512_vnni\n\nflags : other")
    assert "vnni=yes" in describe_cpu("model name : A\nflags : avx_vnni")
    assert "vnni=no" in describe_cpu("model name : A\nflags : avx2 avx512f")


def test_only_the_first_processor_counts():
    assert "avx2=no" in describe_cpu("flags : fpu\n\nflags : avx2")


def test_arm_processors_have_their_own_marks():
    text = describe_cpu("CPU implementer : 0x41\nFeatures : fp asimddp")
    assert "dot-product=yes int8-matmul=no" in text
    assert "vnni" not in text


def test_peak_memory_is_the_high_water_mark(tmp_path):
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmPeak:\t  99999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n")
    assert peak_rss_bytes(status) == 2048 * 1024


def test_an_unknown_peak_is_an_error_and_not_zero(tmp_path):
    status = tmp_path / "status"
    status.write_text("Name:\tpython\n")
    with pytest.raises(LookupError, match="VmHWM"):
        peak_rss_bytes(status)


def test_peak_memory_of_this_process_grows_with_what_it_holds():
    before = peak_rss_bytes()
    block = bytearray(before)
    assert peak_rss_bytes() >= before + len(block) // 2


def test_the_description_names_runtime_provider_and_threads():
    text = runtime_description(provider="CPUExecutionProvider", threads=1)
    assert text.startswith("onnxruntime 1.")
    assert "CPUExecutionProvider; threads=1;" in text
