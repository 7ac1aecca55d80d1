//! The page in a browser: what a click does.

use super::Exporter;
use super::browser::Browser;

#[test]
fn clicks_open_jobs_and_gpus_and_the_form_chooses() {
    let Some(mut browser) = Browser::start() else { return };
    let exporter = Exporter::start(&["--page"]);
    let mut page = browser.open(&format!("http://{}/", exporter.address));
    let dialog_says =
        |text: &str| format!("document.querySelector('dialog[open]')?.innerText.includes({text:?})");
    // A slice tells of its job, and a job that waits why.
    page.click("li.isolated a[data-job='11']");
    page.until(&dialog_says("job 11 does not wait: it is RUNNING"));
    page.click("#close");
    page.until("!document.querySelector('dialog[open]')");
    page.click("td a[data-job='20']");
    page.until(&dialog_says("asks for an instance 4g.20gb"));
    page.click("#close");
    page.until("!document.querySelector('dialog[open]')");
    // A GPU tells its history.
    page.click("a[data-node='n4'][data-gpu='1']");
    page.until("document.querySelector('dialog[open] #gpu-1.chosen')");
    page.until(&dialog_says("100 % now"));
    page.click("#close");
    // The page follows the cluster by itself, and the form leaves out what is not wanted.
    exporter.put("nodes", &super::NODES.replace("whole[job13]", "free"));
    page.until("document.querySelector('#node-n2').parentElement.innerText.includes('free')");
    page.value("filter.elements.state.value = 'away'; filter.elements.state.dispatchEvent(new Event('change', { bubbles: true }))");
    page.until(
        "document.querySelectorAll('main section').length === 1 && document.querySelector('#node-n3')",
    );
    assert_eq!(page.value("location.search"), "?state=away");
    page.click("main p a[href='/']");
    page.until("document.querySelectorAll('main section').length === 4");
}

#[test]
fn a_phone_in_the_dark_shows_it_all() {
    let Some(mut browser) = Browser::start() else { return };
    let exporter = Exporter::start(&["--page", "--users"]);
    let mut page = browser.open(&format!("http://{}/", exporter.address));
    page.until("document.querySelector('#node-n4')");
    page.phone();
    page.until("innerWidth === 360 && matchMedia('(prefers-color-scheme: dark)').matches");
    page.until("document.documentElement.scrollWidth <= 360");
    // Narrow instances have no room for users' names, which would make their rows long.
    page.until(
        "[...document.querySelectorAll('.gpu')].every(gpu => gpu.getBoundingClientRect().height < 80)",
    );
    page.until("getComputedStyle(document.querySelector('.isolated span')).display === 'none'");
    page.until("document.querySelector('main').innerText.includes('whole job ')");
    page.until("getComputedStyle(document.documentElement).backgroundColor === 'rgb(13, 17, 23)'");
    page.click("a[data-node='n1']");
    page.until("document.querySelector('dialog[open]')?.getBoundingClientRect().right <= 360");
}
